#include "producer/runner/run/run_producer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/app/images/list_index.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/program/own_process.hpp"
#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/effects.hpp"
#include "common/app/settings/exit_code.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/utf8.hpp"
#include "common/base/version.hpp"
#include "common/shm/run_objects.hpp"
#include "common/tracing/range_file.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "producer/runner/checkpoint/items_file.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "producer/runner/kernels/jpeg_decoder.hpp"
#include "producer/runner/kernels/picture_encoder.hpp"
#include "producer/runner/models/model_choice.hpp"
#include "producer/runner/models/model_library.hpp"
#include "producer/runner/models/weights_file.hpp"
#include "producer/runner/probe/machine_probe.hpp"
#include "producer/runner/run/defaults.hpp"
#include "producer/runner/run/encoding_place.hpp"
#include "producer/runner/run/producer_run.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/npy_folder.hpp"
#include "producer/runner/sources/opened_input.hpp"
#include "producer/runner/sources/picture_source.hpp"
#include "producer/runner/sources/source_items.hpp"

namespace offramp {
namespace {

void print_names() {
    std::printf("models: copy");
    for (const std::string& name : ModelLibrary::open().names()) std::printf(" %s", name.c_str());
    std::printf("\nsources:");
    for (const SourceEntry& entry : SourceEntry::all())
        std::printf(" %.*s", static_cast<int>(entry.name.size()), entry.name.data());
    std::printf("\n");
}

// Whether the GPU decodes JPEG files. Errors: ConfigError if it cannot, but must.
bool gpu_decodes(const Device& device, const std::string& decode) {
    try {
        return JpegDecoder::open(device) != nullptr;
    } catch (const ConfigError&) {
        if (decode != "auto") throw;
        return false;
    }
}

RunConfig resolve(RunConfig config, const EgressTraits& traits) {
    ModelChoice choice = choose_model(config.model, config.weights, data_folder());
    config.model = std::move(choice.name);
    config.weights = std::move(choice.weights);
    require_model_name(config.model);
    if (!config.weights.empty()) static_cast<void>(open_weights(config.weights));  // fails before a library is loaded
    if (!config.input.empty()) require_input(config.input);
    if (config.source == "auto" && has_arrays_alone(config.input)) config.source = "npy";
    const std::unique_ptr<Device> device = open_device_for_kernels(config.device);
    const MachineSize machine{.has_gpu = device->is_gpu(),
                              .gpu_decodes = config.decode != "cpu" && gpu_decodes(*device, config.decode),
                              .cores = std::thread::hardware_concurrency()};
    const ModelMetadata metadata = settled_metadata(config);
    config = resolve_defaults(config, machine, metadata, traits);
    const int quality = image_quality(config);
    config = settle_encoding(std::move(config), [&] { PictureEncoder::open(*device, quality); });
    source_named(config.source);
    require_tiles_fit(config, metadata);
    require_decoder_fits(config);
    require_chunks_fit(config, metadata);
    require_outputs_of_file(config);
    return config;
}

void require_weights(const RunConfig& config) {
    if (config.weights.empty() && !config.random_weights && config.model != "copy" && !is_model_file(config.model))
        throw no_weights(config.model);
}

// The traits of the chosen egress, or the defaults if another program has it: the launcher asks before it chooses the
// program.
EgressTraits traits_for(const RunConfig& config, const ProducerProgram& program) {
    const auto strategy = program.choose_egress(config);
    return strategy ? strategy->traits() : EgressTraits{};
}

// Answers the launcher's question before a run: prints the settings as resolved and as given, and this program's
// version.
int print_settings(int argc, const char* const* argv, const ProducerProgram& program) {
    const auto given = parse_run_config(argc, argv, program.name);
    if (!given) return to_int(ExitCode::Ok);
    const RunConfig settings = resolve(*given, traits_for(*given, program));
    return std::printf("{\"version\": \"%s\", \"settings\": %s, \"given\": %s}\n",
                       std::string(program_version()).c_str(), to_json(settings).c_str(), to_json(*given).c_str()),
           to_int(ExitCode::Ok);
}

// `list`: the file for the input's list; empty: no list.
int print_job_facts(const std::string& list, int argc, const char* const* argv, const ProducerProgram& program) {
    spdlog::set_level(spdlog::level::err);
    const auto parsed = parse_run_config(argc, argv, program.name);
    if (!parsed) return to_int(ExitCode::Ok);
    const RunConfig config = resolve(*parsed, traits_for(*parsed, program));
    require_weights(config);
    return std::printf("%s\n", job_facts(config, list).c_str()), to_int(ExitCode::Ok);
}

int run(int argc, const char* const* argv, const ProducerProgram& program) {
    const std::uint64_t began_ns = now_ns();
    // A command precedes the flags.
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (argc > 4 && command == "join-shards") return join_shards_named(argv[2], argv[3], argv[4]), to_int(ExitCode::Ok);
    if (command == "settings") return print_settings(argc - 1, argv + 1, program);
    if (argc > 2 && command == "job-facts") return print_job_facts(argv[2], argc - 2, argv + 2, program);
    const bool probes = command == "probe", sweeps = command == "sweep", recovers = command == "recover";
    const int words = probes || sweeps || recovers ? 1 : 0;
    auto parsed = parse_run_config(argc - words, argv + words, program.name);
    if (!parsed) return to_int(ExitCode::Ok);
    if (parsed->list) return print_names(), to_int(ExitCode::Ok);
    if (probes) return std::printf("%s\n", probe_machine_json().c_str()), to_int(ExitCode::Ok);
    parsed->recover = recovers;
    if (parsed->print_config)
        return std::printf("%s\n", to_json(resolve(*parsed, traits_for(*parsed, program))).c_str()),
               to_int(ExitCode::Ok);
    auto strategy = sweeps ? nullptr : program.choose_egress(*parsed);
    if (!sweeps && !strategy) {
        const ChosenEgress chosen = ChosenEgress::in(parsed->catalogue);
        throw ConfigError("--" + chosen.flag + " '" + chosen.name +
                          "' needs offramp-ladder, which takes the same flags");
    }
    if (!sweeps && (parsed->run_dir.empty() || parsed->run_id.empty()))
        throw ConfigError("a producer needs --run-dir and --run-id",
                          "Start runs with launch/offramp run, which chooses both");

    start_logging("producer", parsed->log_level, parsed->log_format, parsed->log_file);
    // A run to be recovered may have no process left that holds it.
    if (!recovers)
        for (const std::string& name : sweep_dead_runs()) spdlog::info("removed {}, left by a dead run", name);
    if (sweeps) return to_int(ExitCode::Ok);
    if (!parsed->trace_dir.empty()) start_recording(parsed->trace_dir, "producer", strategy->traits().name);
    raise_descriptor_limit();  // each consumer takes three
    keep_freed_memory();       // a model on the CPU allocates its outputs for each batch
    const EndSignals signals;
    const RunConfig config = resolve(*parsed, strategy->traits());
    require_weights(config);
    if (const std::string warning = warning_about_size(*parsed, config); !warning.empty()) spdlog::warn("{}", warning);
    const ExitCode code = ProducerRun(config, std::move(strategy), signals, began_ns).execute();
    failpoint("run.swept");
    save_recording();
    return to_int(code);
}

// Writes to plain standard error before logging starts, and later in the user's chosen format.
void say(const ProducerProgram& program, const std::string& text) {
    if (spdlog::default_logger()->name().empty())
        std::fprintf(stderr, "%s: %s\n", program.name, text.c_str());
    else
        spdlog::critical("{}", text);
}

// A source counts and names its items independently of the model's input: these values replace it.
constexpr std::int64_t kAnySize = 32, kAnyLength = 16;

// The shape of a sample if the model takes the bands of TIFF files; otherwise empty.
std::vector<std::int64_t> bands_of_model(const RunConfig& config) {
    std::vector<std::int64_t> sample = settled_metadata(config).input_shape;
    return is_shape_of_bands(sample) ? sample : std::vector<std::int64_t>{};
}

TensorSpec input_that_fits(const RunConfig& config) {
    if (config.source == "text" || gives_text_tables(config.source))
        return TensorSpec::contiguous(
            "tokens", kInt32,
            std::array{std::int64_t{1}, std::int64_t{2}, std::max(kAnyLength, std::int64_t{config.chunk_tokens})});
    if (config.source == "npy") {
        std::error_code ignored;
        const bool folder = std::filesystem::is_directory(config.input, ignored);
        const std::vector<std::string> names = folder ? arrays_in(config.input) : std::vector<std::string>{};
        if (folder && names.empty()) return {};  // the source names the fault
        const NpyFile file =
            folder ? NpyFile((std::filesystem::path(config.input) / names.front()).string(), NpyFile::Items::Whole)
                   : NpyFile(config.input);
        if (file.row_shape().size() >= kMaxDims)
            throw ConfigError("--input has an array " + file.describe() + ", which has too many dimensions",
                              "Give arrays of at most " + std::to_string(kMaxDims - 1), ErrorKind::BadInput);
        std::vector<std::int64_t> shape{1};
        shape.insert(shape.end(), file.row_shape().begin(), file.row_shape().end());
        return TensorSpec::contiguous("rows", kFloat32, shape);
    }
    if (config.source == "synthetic") return {};
    const std::int64_t side = config.tile > 0 ? std::int64_t{config.tile} : kAnySize;
    if (const std::vector<std::int64_t> sample = bands_of_model(config); !sample.empty())
        return TensorSpec::contiguous("bands", kFloat32, std::array{std::int64_t{1}, sample[0], side, side});
    return TensorSpec::contiguous("pictures", kFloat32, std::array{std::int64_t{1}, std::int64_t{3}, side, side});
}

// `pictures`: null: the source lists them.
std::unique_ptr<BatchSource> source_to_count(const RunConfig& config, std::shared_ptr<PictureList> pictures) {
    std::error_code ignored;
    if (config.source == "npy" && settled_metadata(config).takes_arrays() &&
        std::filesystem::is_directory(config.input, ignored))
        throw ConfigError("--input '" + config.input +
                              "' has an array for each of the model's inputs, which a job cannot cut into shards",
                          "Start a separate run on each machine with --shard I/N and an --output");
    RunConfig counted = config;
    counted.resize_size = 0;
    return part_of(source_named(config.source)
                       .make({.input = &counted,
                              .model = &counted,
                              .model_input = input_that_fits(config),
                              .model_takes_images = config.source != "npy" && bands_of_model(config).empty(),
                              .columns_are_read = reads_columns(config),
                              .pictures = std::move(pictures)}),
                   config);
}

// `list` is a temporary file: its folder is named.
WriteFailure failure_of_job(const std::string& what, const std::string& list) {
    return [=](int problem) {
        return SystemError(
            "cannot write the " + what + " into " + printable(std::filesystem::path(list).parent_path().string()),
            problem, way_to_write(problem, "Give --job a folder that this user may write to"), ErrorKind::CannotWrite);
    };
}

// Writes the index of a list, and the items file beside it. Returns source_hash().
std::uint64_t write_index(ListIndex index, const BatchSource& source, const std::string& list) {
    const std::string items_path = ListIndex::items_path_for(list), path = ListIndex::path_for(list);
    const WriteFailure failure = failure_of_job("index of the job's list", list);
    const auto items = new_items_file(items_path, failure);
    index.items = source.items();
    index.items_hash =
        source_hash(source, [&](std::span<const std::uint64_t> hashes) { write_hashes(*items, hashes); });
    index.max_key_bytes = source.max_key_bytes();
    items->flush();
    static_cast<void>(items->put_in_place());
    index.items_file_bytes = std::filesystem::file_size(items_path);
    WholeFile file(path, 0644, failure);
    index.write(file);
    file.flush();
    static_cast<void>(file.put_in_place());
    return index.items_hash;
}

// The same; if the files cannot be written, it leaves none and adds the reason to `unwritten`.
std::uint64_t try_to_write_index(ListIndex index, const BatchSource& source, const std::string& list,
                                 std::string& unwritten) {
    try {
        return write_index(std::move(index), source, list);
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::CannotWrite) throw;
        std::error_code ignored;
        for (const std::string& path : {ListIndex::path_for(list), ListIndex::items_path_for(list)})
            std::filesystem::remove(path, ignored);
        unwritten = problem.what();
    }
    return source_hash(source);
}

// Nothing, if the list cannot be read: the listing reports it.
std::optional<ListIndex> description_of_list(const RunConfig& config) {
    try {
        ListIndex index;
        describe_list(config.input, config.input_list, index);
        return index;
    } catch (const Error&) {
        return std::nullopt;
    }
}

// The index that the job made, if it can be used.
std::shared_ptr<const ListIndex> usable_index(const RunConfig& config) {
    if (config.input_index.empty() || needs_whole_list(config)) return nullptr;
    try {
        return index_of_list(config.input_index, config.input, config.input_list);
    } catch (const Error&) {
        return nullptr;
    }
}

std::string text_of_facts(const RunConfig& config, std::uint64_t items, std::uint64_t hash,
                          const std::string& unwritten = {}) {
    const CheckpointIdentity identity = CheckpointIdentity::of(config, items, source_fingerprint(hash));
    nlohmann::json facts{{"items", items}, {"identity", identity.facts}};
    if (!unwritten.empty()) facts["unwritten"] = unwritten;
    return facts.dump();
}

void write_list(const RunConfig& config, const std::string& path) {
    std::error_code ignored;
    if (config.source != "images" || !std::filesystem::is_directory(config.input, ignored)) return;
    WholeFile file(path, 0644, failure_of_job("list of the job's input", path));
    file.write(text_of_listed_files(list_image_files(config.input)));
    file.flush();
    static_cast<void>(file.put_in_place());
}

std::uint64_t number_of(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc() || end != text.data() + text.size())
        throw ConfigError("join-shards: '" + std::string(text) + "' is not a whole number", "The launcher gives it");
    return number;
}

}  // namespace

int run_producer(int argc, const char* const* argv, const ProducerProgram& program) noexcept {
    put_remedies(flag_remedy);
    try {
        try {
            return run(argc, argv, program);
        } catch (...) {
            std::rethrow_exception(with_limits_named(std::current_exception()));
        }
    } catch (const Error& problem) {
        say(program, problem.what());
        return to_int(problem.kind());
    } catch (const std::exception& problem) {
        say(program, std::string("unexpected: ") + problem.what());
        return to_int(ErrorKind::Internal);
    }
}

std::string job_facts(const RunConfig& config, const std::string& list) {
    RunConfig whole = config;
    whole.shard.clear();
    if (!list.empty()) {
        write_list(whole, list);
        if (std::filesystem::exists(list)) whole.input_list = list;
    }
    if (const auto index = usable_index(whole)) return text_of_facts(whole, index->items, index->items_hash);
    std::optional<ListIndex> index;
    std::shared_ptr<FilePictures> pictures;
    if (!list.empty() && !needs_whole_list(whole)) index = description_of_list(whole);
    if (index)
        pictures = std::make_shared<FilePictures>(
            whole.input_list.empty() ? list_image_files(whole.input, {}, &index->parts)
                                     : read_listed_files(whole.input, whole.input_list, &index->parts));
    const auto source = source_to_count(whole, pictures);
    if (index && !index->parts.empty() && pictures->keys_are_independent()) {
        require_results_apart(whole, *source);  // a shard compares only its own items
        std::string unwritten;
        const std::uint64_t hash = try_to_write_index(std::move(*index), *source, list, unwritten);
        return text_of_facts(whole, source->items(), hash, unwritten);
    }
    return text_of_facts(whole, source->items(), source_hash(*source));
}

void join_shards_named(const std::string& output, const std::string& run_id, const std::string& count) {
    std::vector<DoneShard> shards;
    for (std::string line; std::getline(std::cin, line);) {
        const std::string_view index = std::string_view(line).substr(0, line.find(' '));
        shards.push_back({.index = number_of(index), .whole = line.size() > index.size()});
    }
    if (shards.empty())
        throw ConfigError("join-shards: standard input names no shard", "The launcher names those that are done");
    join_checkpoints(output, run_id, shards, number_of(count));
}

}  // namespace offramp
