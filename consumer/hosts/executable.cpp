#include "consumer/hosts/executable.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/json/json_text.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/hosts/child_process.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;

// How a slab ended; if it failed, with the program's text.
struct Answered {
    std::int32_t code = OFFRAMP_OK;
    std::string why;
};

// The bytes of all samples. If they differ in shape, other bytes may be between them.
std::span<const std::byte> bytes_of(const offramp_tensor& tensor, std::uint32_t samples) {
    if (tensor.rows == nullptr) {
        std::size_t bytes = tensor.dtype.bits / 8U;
        for (std::uint32_t dim = 0; dim < tensor.dims; ++dim) bytes *= static_cast<std::size_t>(tensor.shape[dim]);
        return {static_cast<const std::byte*>(tensor.data), bytes};
    }
    const std::byte *begin = nullptr, *end = nullptr;
    for (const offramp_row& row : std::span(tensor.rows, samples)) {
        const auto* const data = static_cast<const std::byte*>(row.data);
        if (row.bytes == 0) continue;
        begin = begin == nullptr ? data : std::min(begin, data);
        end = std::max(end, data + row.bytes);
    }
    return {begin, end};
}

// `begin`: of the tensor's bytes, at `offset` in the file.
json rows_of(const offramp_tensor& tensor, std::uint32_t samples, const std::byte* begin, std::uint64_t offset) {
    json rows = json::array();
    for (const offramp_row& row : std::span(tensor.rows, samples)) {
        const auto* const data = static_cast<const std::byte*>(row.data);
        rows.push_back({{"shape", std::vector(row.shape, row.shape + tensor.dims - 1)},
                        {"offset", offset + static_cast<std::uint64_t>(row.bytes == 0 ? 0 : data - begin)},
                        {"bytes", row.bytes}});
    }
    return rows;
}

class Executable {
  public:
    Executable(std::string command, const offramp_processor_options& options) : command_(std::move(command)) {
        json given = json::object();
        for (std::uint32_t i = 0; i < options.option_count; ++i) given[options.keys[i]] = options.values[i];
        hello_ = json_text(json{{"offramp", kProtocol}, {"output", options.output}, {"options", given}});
        start();
    }

    Answered process(const offramp_host& host, const offramp_slab& slab) {
        if (!child_) start();
        files_.forget();
        ++slab_;
        if (!child_->write_line(json_text(json{{"slab", described(slab)}}))) return gone();
        for (std::string line; child_->read_line(line);)
            if (const auto answered = take(host, line)) return *answered;
        return gone();
    }

    void end() { child_.reset(); }
    bool takes_variable() const { return takes_variable_; }

  private:
    void start() {
        child_.emplace(command_);
        child_->write_line(hello_);  // fails if the program has ended, perhaps after its answer
        if (std::string line; child_->read_line(line)) {
            const json answer = parse_json_or_discard(line);
            if (answer.is_object() && answer.value("offramp", json()) == json(kProtocol)) {
                takes_variable_ = answer.value("takes_variable", json()) == json(true);
                return;
            }
            child_.reset();
            throw ConfigError("it answered '" + line.substr(0, 200) + "' to the first line",
                              "Answer {\"offramp\": 1}: launch/guide/processors.md");
        }
        const std::string how = child_->end();
        child_.reset();
        throw ConfigError("it ended " + how + " before it answered the first line",
                          "Start it by hand: it answers {\"offramp\": 1} to its first line "
                          "(launch/guide/processors.md)");
    }

    // The next slab restarts the program.
    Answered gone() {
        const std::string how = child_->end();
        child_.reset();
        return {OFFRAMP_FAILED, "the program ended " + how};
    }

    Answered nonsense(const std::string& line) {
        child_.reset();
        return {OFFRAMP_FAILED,
                "the program wrote '" + line.substr(0, 200) + "', which is not an answer: launch/guide/processors.md"};
    }

    json described(const offramp_slab& slab) {
        json tensors = json::array(), samples = json::array();
        for (std::uint32_t i = 0; i < slab.tensor_count; ++i) {
            const offramp_tensor& tensor = slab.tensors[i];
            const auto bytes = bytes_of(tensor, slab.sample_count);
            const auto place = files_.find(bytes);
            json described{{"name", tensor.name},
                           {"dtype", to_string(DType{tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes})},
                           {"shape", std::vector(tensor.shape, tensor.shape + tensor.dims)},
                           {"path", place.path},
                           {"offset", place.offset},
                           {"bytes", bytes.size()}};
            if (tensor.rows == nullptr)
                described["strides"] = std::vector(tensor.strides, tensor.strides + tensor.dims);
            else
                described["rows"] = rows_of(tensor, slab.sample_count, bytes.data(), place.offset);
            tensors.push_back(std::move(described));
        }
        for (std::uint32_t i = 0; i < slab.sample_count; ++i) {
            const offramp_sample& sample = slab.samples[i];
            if (sample.empty != 0) continue;
            samples.push_back({{"sample", i},
                               {"item", sample.item},
                               {"batch", sample.batch},
                               {"key", std::string(sample.key, sample.key_bytes)},
                               {"row", sample.row}});
            if (sample.metadata_bytes > 0)
                samples.back()["metadata"] = parse_json_or_discard({sample.metadata, sample.metadata_bytes});
        }
        return {{"number", slab_}, {"name", slab.name}, {"tensors", tensors}, {"samples", samples}};
    }

    // Executes one line of the program. Returns a result if the line ended the slab.
    std::optional<Answered> take(const offramp_host& host, const std::string& line) {
        const json reply = parse_json_or_discard(line);
        if (!reply.is_object()) return nonsense(line);
        try {
            if (reply.contains("progress")) {
                host.progress(&host);
                return std::nullopt;
            }
            // A late answer belongs to an earlier slab: from here on the program and this side would be out of step.
            if (!reply.contains("slab") || reply.at("slab") != json(slab_)) return nonsense(line);
            if (reply.contains("file")) return after(commit_file(host, reply.at("file")));
            if (reply.contains("record")) return after(commit_record(host, reply.at("record")));
            if (reply.contains("done")) return Answered{};
            if (reply.contains("failed")) return Answered{OFFRAMP_FAILED, reply.at("failed").get<std::string>()};
            if (reply.contains("rejected")) return Answered{OFFRAMP_REJECTED, reply.at("rejected").get<std::string>()};
            if (reply.contains("retry")) return Answered{OFFRAMP_RETRY, reply.at("retry").get<std::string>()};
        } catch (const json::exception&) {
        }
        return nonsense(line);
    }

    // Ends the program after a refused commit, because it would continue with its answers. The host knows the reason.
    std::optional<Answered> after(std::int32_t code) {
        if (code == OFFRAMP_OK) return std::nullopt;
        child_.reset();
        return Answered{code, ""};
    }

    static std::uint32_t sample_in(const json& answer) {
        const json& sample = answer.at("sample");
        if (!sample.is_number_unsigned() || sample.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
            throw json::type_error::create(302, "no sample", nullptr);
        return sample.get<std::uint32_t>();
    }

    static std::int32_t commit_file(const offramp_host& host, const json& file) {
        const std::uint32_t sample = sample_in(file);
        const auto ending = file.at("ending").get<std::string>();
        if (ending.find('\0') != std::string::npos) throw json::type_error::create(302, "no ending", nullptr);
        std::string bytes;
        if (file.contains("text")) {
            bytes = file.at("text").get<std::string>();
        } else {
            const auto path = file.at("path").get<std::string>();
            try {
                const RegularFile from(path);
                bytes.resize(from.size());
                bytes.resize(from.read_at(0, std::as_writable_bytes(std::span(bytes))));
            } catch (const Error& problem) {
                throw Error(problem.kind(), "the file " + path + " of the program " + problem.what());
            }
        }
        return host.commit_file(&host, sample, ending.c_str(), bytes.data(), bytes.size());
    }

    static std::int32_t commit_record(const offramp_host& host, const json& record) {
        const std::string fields = json_text(record.at("fields"));
        return host.commit_record(&host, sample_in(record), fields.data(), fields.size());
    }

    std::string command_, hello_;
    bool takes_variable_ = false;
    std::uint64_t slab_ = 0;
    std::optional<ChildProcess> child_;
    FilesOfMemory files_;
};

std::int32_t explained(const offramp_host* host, const std::string& why, std::int32_t code) {
    host->explain(host, why.c_str());
    return code;
}

constexpr std::string_view kPrefix = "exec:";

}  // namespace

const offramp_processor& executable_processor() {
    static const offramp_processor processor{
        .size = sizeof processor,
        .create = [](const offramp_host* host, const offramp_processor_options* options, void** self) -> std::int32_t {
            try {
                *self = new Executable(std::string(options->name).substr(kPrefix.size()), *options);
                if (options->only_check == 0) return OFFRAMP_OK;
                delete static_cast<Executable*>(*self);
                *self = nullptr;
                return OFFRAMP_OK;
            } catch (const std::exception& problem) {
                return explained(host, problem.what(), OFFRAMP_BAD_ARGUMENT);
            }
        },
        .process = [](void* self, const offramp_host* host, const offramp_slab* slab) -> std::int32_t {
            try {
                const Answered answered = static_cast<Executable*>(self)->process(*host, *slab);
                return answered.code == OFFRAMP_OK ? OFFRAMP_OK : explained(host, answered.why, answered.code);
            } catch (const std::exception& problem) {
                static_cast<Executable*>(self)->end();  // later answers would be taken for another slab's
                return explained(host, problem.what(), OFFRAMP_FAILED);
            }
        },
        .destroy = [](void* self) { delete static_cast<Executable*>(self); }};
    return processor;
}

bool executable_takes_variable(const void* self) { return static_cast<const Executable*>(self)->takes_variable(); }

FilesOfMemory::Place FilesOfMemory::find(std::span<const std::byte> bytes) {
    if (!region_ || !region_->holds(bytes)) region_ = region_of(bytes);
    if (!region_ || region_->path.empty() || !std::filesystem::exists(region_->path)) return copy(bytes);
    return {region_->path, region_->offset + (reinterpret_cast<std::uintptr_t>(bytes.data()) - region_->begin)};
}

bool FilesOfMemory::Region::holds(std::span<const std::byte> bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
    return begin <= first && first + bytes.size() <= end;
}

// proc(5): "begin-end perms offset dev inode   path"
std::optional<FilesOfMemory::Region> FilesOfMemory::region_in(std::string_view line) {
    Region region;
    const char* at = line.data();
    const char* const line_end = at + line.size();
    const auto number = [&](auto& value, char behind) {
        const auto [end, problem] = std::from_chars(at, line_end, value, 16);
        if (problem != std::errc() || end == line_end || *end != behind) return false;
        at = end + 1;
        return true;
    };
    if (!number(region.begin, '-') || !number(region.end, ' ')) return std::nullopt;
    const auto word = [&] {
        at = std::find_if(at, line_end, [](char c) { return c != ' '; });
        const char* const begin = at;
        at = std::find(at, line_end, ' ');
        return std::string_view(begin, at);
    };
    word();  // permissions
    at = std::min(at + 1, line_end);
    if (!number(region.offset, ' ')) return std::nullopt;
    word(), word();  // device, inode
    at = std::find_if(at, line_end, [](char c) { return c != ' '; });
    if (at != line_end && *at == '/') region.path.assign(at, line_end);
    return region;
}

// Runs for each slab, so it parses by hand and stops at the region.
std::optional<FilesOfMemory::Region> FilesOfMemory::region_of(std::span<const std::byte> bytes) {
    const UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    if (!maps) throw SystemError("reading /proc/self/maps", errno, "Is /proc mounted?");
    std::string text;
    std::array<char, 16384> piece;
    while (true) {
        const ssize_t got = ::read(maps.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SystemError("reading /proc/self/maps", errno);
        if (got == 0) return std::nullopt;
        text.append(piece.data(), static_cast<std::size_t>(got));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
            if (auto region = region_in(std::string_view(text).substr(begin, end - begin));
                region && region->holds(bytes))
                return region;
        text.erase(0, begin);
    }
}

FilesOfMemory::Place FilesOfMemory::copy(std::span<const std::byte> bytes) {
    UniqueFd memory(::memfd_create("offramp-slab", MFD_CLOEXEC));
    if (!memory) throw SystemError("making memory for a slab's copy", errno);
    write_all(memory.get(), bytes, [](int problem) { return SystemError("copying a slab", problem); });
    std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.get());
    copies_.push_back(std::move(memory));
    return {std::move(path), 0};
}

}  // namespace offramp
