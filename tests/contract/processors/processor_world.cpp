#include "tests/contract/processors/processor_world.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <sstream>
#include <stdexcept>

#include "common/app/settings/processor_results.hpp"
#include "consumer/hosts/make_hosted.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/sinks/files/output_name.hpp"
#include "consumer/sinks/postgres/postgres_database.hpp"
#include "tests/contract/processors/by_consumer.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp::test {

namespace fs = std::filesystem;

namespace {

int add_row(void* to, int columns, char** values, char**) {
    for (int column = 0; column < columns; ++column) {
        *static_cast<std::string*>(to) += column == 0 ? "" : "\t";
        *static_cast<std::string*>(to) += values[column] == nullptr ? "nothing" : escaped(values[column]);
    }
    *static_cast<std::string*>(to) += '\n';
    return 0;
}

std::string rows_of(sqlite3* database, const std::string& question) {
    std::string rows;
    char* problem = nullptr;
    if (sqlite3_exec(database, question.c_str(), add_row, &rows, &problem) != SQLITE_OK)
        throw std::runtime_error(question + ": " + (problem == nullptr ? "?" : problem));
    return rows;
}

// Every row of every table, sorted by value; bytes in hexadecimal.
std::string read_database(const std::string& path) {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE, nullptr);
    const std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)> database(opened, sqlite3_close_v2);
    if (result != SQLITE_OK) throw std::runtime_error("opening " + path);
    std::string text;
    std::istringstream tables(rows_of(
        opened, "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'offramp_commits' ORDER BY name"));
    for (std::string table; std::getline(tables, table);) {
        std::string columns;
        std::string order;
        std::istringstream names(rows_of(opened, "SELECT name FROM pragma_table_info('" + table + "')"));
        for (std::string name; std::getline(names, name);) {
            columns += (columns.empty() ? "" : ", ") +
                       ("CASE typeof(" + name + ") WHEN 'blob' THEN hex(" + name + ") ELSE " + name + " END");
            order += (order.empty() ? "" : ", ") + name;
        }
        text += rows_of(opened, "SELECT '" + table + "', " + columns + " FROM " + table + " ORDER BY " + order);
    }
    return text;
}

// Each folder has its own table in the PostgreSQL of the tests, if any.
const char* postgres_of_tests() { return std::getenv("OFFRAMP_TEST_POSTGRES"); }

std::string table_of(const std::string& folder) { return "t_" + std::to_string(std::hash<std::string>()(folder)); }

void read_table(const std::string& folder, Tree& tree) {
    if (postgres_of_tests() == nullptr) return;
    PostgresDatabase database(postgres_of_tests());
    const std::string table = table_of(folder);
    if (!database.rows("SELECT to_regclass($1)", {table}).at(0).at(0)) return;
    std::string& text = tree["rows in PostgreSQL"];
    for (const std::string& name : {table, table + "_outputs"}) {
        const std::string columns = database
                                        .rows(
                                            "SELECT string_agg(quote_ident(attname) || '::text', ', ' ORDER BY attnum) "
                                            "FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0",
                                            {name})
                                        .at(0)
                                        .at(0)
                                        .value_or("");
        if (columns.empty()) continue;
        for (const PostgresDatabase::Row& row :
             database.rows("SELECT " + columns + " FROM " + name + " ORDER BY " + columns)) {
            for (const auto& value : row) text += (value ? escaped(*value) : "nothing") + "\t";
            text += '\n';
        }
    }
}

// SQLite's side files of an open database.
bool belongs_to_a_database(const fs::path& path) {
    const std::string name = path.filename().string();
    return name.ends_with(".sqlite-wal") || name.ends_with(".sqlite-shm");
}

}  // namespace

Tree read_tree(const std::string& folder) {
    Tree tree;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (belongs_to_a_database(entry.path())) continue;
        std::string& text = tree[fs::relative(entry.path(), folder).string()];
        if (!entry.is_regular_file()) continue;
        if (entry.path().extension() == ".sqlite") {
            text = read_database(entry.path());
            continue;
        }
        if (entry.path().filename().string().starts_with(".offramp-made-")) continue;  // contains a random table name
        std::ifstream file(entry.path(), std::ios::binary);
        text.assign(std::istreambuf_iterator<char>(file), {});
    }
    read_table(folder, tree);
    return tree;
}

SlabContents MemorySlab::contents() const { return SlabContents::read({storage.get(), bytes}, 7, ticket); }

std::string key_of(std::uint64_t item) {
    return "folder " + std::to_string(item % 3) + "/image\\" + std::to_string(item) + ".jpg";
}

namespace {

std::vector<TensorSpec> outputs() {
    const std::int64_t scores[] = {1, 3, 5, 7};
    const std::int64_t bytes[] = {1, 10};
    const std::int64_t vector[] = {1, kDimensions};
    return {TensorSpec::contiguous("scores", kFloat32, scores), TensorSpec::contiguous("extra", kUInt8, bytes),
            TensorSpec::contiguous("embedding", kFloat32, vector)};
}

void fill_row(SlabWriter& writer, std::uint32_t row, std::uint64_t item, bool varies) {
    float scores[3 * 5 * 7];
    for (std::size_t i = 0; i < std::size(scores); ++i) scores[i] = static_cast<float>((i * 37 + item * 11) % 101);
    const std::array<std::int64_t, 1> classes{static_cast<std::int64_t>(item % 4)};
    const auto to = varies ? writer.place_row(0, row, classes, false) : writer.tensor_rows(0, row, 1);
    if (!to.empty()) std::memcpy(to.data(), scores, to.size());
    std::memset(writer.tensor_rows(1, row, 1).data(), static_cast<int>(item), 10);
    float vector[kDimensions];
    for (std::size_t i = 0; i < std::size(vector); ++i)
        vector[i] = static_cast<float>(item) + static_cast<float>(i) / 8;
    std::memcpy(writer.tensor_rows(2, row, 1).data(), vector, sizeof vector);
}

MemorySlab make_slab_of(const std::vector<TensorSpec>& tensors, std::uint64_t first, std::uint64_t count,
                        const std::string& key) {
    const auto layout = SlabLayout::make(tensors, static_cast<std::int64_t>(count), static_cast<std::uint32_t>(count),
                                         kMaxKeyBytes, 1 << 16);
    // The writer starts at a page, like every slab.
    MemorySlab slab{.storage = std::make_unique<std::byte[]>(layout.slab_bytes), .bytes = layout.slab_bytes};
    slab.ticket = {.epoch = 1, .slab = 2, .generation = first + 3, .attempt = 1};
    SlabWriter writer({slab.storage.get(), slab.bytes}, layout);
    writer.begin({.run_nonce = 7, .epoch = 1, .slab = 2, .generation = first + 3, .model = "test"});
    for (std::uint64_t item = first; item < first + count; ++item) {
        const std::string own_key = item == first && !key.empty() ? key : key_of(item);
        const SampleEntry sample{.item = item, .key = own_key, .empty = item == kEmptyRow};
        if (!writer.add_batch(item / kItemsInBatch, static_cast<std::uint32_t>(item % kItemsInBatch), {&sample, 1}))
            throw std::runtime_error("the slab is too small for its samples");
        fill_row(writer, writer.rows() - 1, item, layout.varies());
    }
    writer.finish(1);
    return slab;
}

}  // namespace

MemorySlab make_slab(std::uint64_t first, std::uint64_t count, const std::string& key) {
    return make_slab_of(outputs(), first, count, key);
}

MemorySlab make_varying_slab(std::uint64_t first, std::uint64_t count) {
    std::vector<TensorSpec> tensors = outputs();
    tensors[0].shape[1] = kVarying;
    return make_slab_of(tensors, first, count, {});
}

const std::string& originals() {
    static const ScratchFolder folder;
    static const std::string list = [] {
        std::ofstream names(folder.path() + "/list.txt");
        std::vector<std::string> keys{"...", "-rf", "back\\slash", std::string(200, 'k'), "sample"};
        for (std::uint64_t item = 0; item < kItems; ++item) keys.push_back(key_of(item));
        unsigned seed = 0;
        for (const std::string& key : keys) {
            const std::string path = folder.path() + "/" + key + ".png";
            fs::create_directories(fs::path(path).parent_path());
            std::ofstream(path, std::ios::binary) << encode_png(kOriginalSize, gradient(kOriginalSize, seed++));
            names << key << ".png\n";
        }
        return folder.path() + "/list.txt";
    }();
    return list;
}

std::string missing_requirement(const std::string& processor) {
    if (runs_by_consumer(processor)) return ByConsumer::missing_requirement();
    if (processor == "embeddings-parquet" && OFFRAMP_HAS_PARQUET == 0) return "built without pyarrow";
    if (processor.ends_with("-postgres") && postgres_of_tests() == nullptr)
        return "OFFRAMP_TEST_POSTGRES names no server; contract.postgres runs this with one";
    return {};
}

namespace {

// The port of a server that stores requests in the folder named by the URL's path (tests/support/http_receiver.py).
// It is started once, and ends with this process, whose pipe it reads.
int receivers_port() {
    static const int port = [] {
        int to_server[2];
        int from_server[2];
        if (::pipe2(to_server, O_CLOEXEC) != 0 || ::pipe2(from_server, O_CLOEXEC) != 0)
            throw std::runtime_error("pipe2");
        const pid_t server = ::fork();
        if (server < 0) throw std::runtime_error("fork");
        if (server == 0) {
            ::dup2(to_server[0], STDIN_FILENO);
            ::dup2(from_server[1], STDOUT_FILENO);
            ::execlp("python3", "python3", OFFRAMP_HTTP_RECEIVER, nullptr);
            ::_exit(127);
        }
        ::close(to_server[0]);
        ::close(from_server[1]);
        const std::unique_ptr<FILE, decltype(&std::fclose)> output(::fdopen(from_server[0], "r"), &std::fclose);
        int number = 0;
        if (std::fscanf(output.get(), "%d", &number) != 1)
            throw std::runtime_error("python3 " OFFRAMP_HTTP_RECEIVER " gives no port");
        ::setenv("NO_PROXY", "127.0.0.1", 1);
        return number;
    }();
    return port;
}

std::string url_of(const std::string& folder) {
    std::string path;
    for (const char c : folder) path += c == ' ' ? "%20" : std::string(1, c);
    return "http://127.0.0.1:" + std::to_string(receivers_port()) + path;
}

}  // namespace

RunConfig config_for(const std::string& processor, const std::string& folder) {
    RunConfig config;
    if (processor == "http") {
        std::error_code ignored;
        fs::create_directories(folder, ignored);  // the server creates no folder
        config.catalogue.put("http-url", url_of(folder));
    }
    config.input = originals();
    if (processor == "image") config.catalogue.put("image-range", "0:255");   // of the scores
    if (processor == "mask-rle") config.catalogue.put("mask-size", "model");  // its samples may have any keys
    if (processor == "image") config.catalogue.put("picture-size", "model");  // likewise
    config.processor = processor;
    config.output = folder;
    config.catalogue.put("write-path", folder);
    if (postgres_of_tests() != nullptr) config.sink = postgres_of_tests();
    config.sink_table = table_of(folder);
    return config;
}

std::unique_ptr<Processor> made(const std::string& names, const RunConfig& config) {
    static const MakeHosted hosted = [](const ProcessorSpec& spec, const ProcessorOptions& options) {
        return make_hosted(spec, options, nullptr);
    };
    if (runs_by_consumer(names)) return std::make_unique<ByConsumer>(config);
    return make_processor(names, config, &hosted);
}

std::vector<std::string> names_of_all() {
    std::vector<std::string> names;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) names.emplace_back(entry.name);
    return names;
}

std::vector<std::string> names_of_hosted() {
    return {"so:" OFFRAMP_BUILD "/bin/tests/own_processor.so", "exec:" OFFRAMP_BUILD "/bin/tests/own_program",
            "python:" OFFRAMP_OWN_SOURCES "/own_function.py:save"};
}

bool is_hosted(const std::string& name) { return ProcessorSpec::of(name).has_value(); }

bool runs_by_consumer(const std::string& name) {
    return name.starts_with("python:") || (is_hosted(name) && ByConsumer::is_installed());
}

std::string word_for(const std::string& name) {
    std::string word = is_hosted(name) ? name.substr(0, name.find(':')) : name;
    std::ranges::replace(word, '-', '_');
    return word;
}

void process_all(const RunConfig& config, const std::vector<MemorySlab>& slabs) {
    const auto processor = made(config.processor, config);
    for (const MemorySlab& slab : slabs) processor->process(slab.contents(), kNoProgress, kCurrent);
}

Tree run_over(const RunConfig& config, const std::string& folder, const std::vector<MemorySlab>& slabs) {
    process_all(config, slabs);
    finish_run(config);
    return read_tree(folder);
}

void note_run(const RunConfig& config, Came came) {
    std::ofstream checkpoint(config.output + "/.offramp-checkpoint", std::ios::trunc);
    checkpoint << R"({"xxh3":"0","before":0,"identity":{"--processor":")" << config.processor
               << (config.has_processor("write") ? R"(","--write-path":")" + config.catalogue.text("write-path") : "")
               << R"(","items":"12"},"checkpoint":2,)"
               << R"("pid":42,"run":"the-run"})"
                  "\n";
    if (came == Came::ToItsEnd)
        checkpoint << R"({"xxh3":"0","done":[[0,8]]})"
                      "\n"
                   << R"({"xxh3":"0","done":[[8,12]]})"
                      "\n";
    if (came == Came::ToItsEndButForSome)
        checkpoint << R"({"xxh3":"0","done":[[0,4],[8,9]]})"
                      "\n";
    if (came != Came::ToAResult)
        checkpoint << R"({"xxh3":"0","ended":true})"
                      "\n";
}

Tree results_in(const std::string& folder) {
    Tree tree = read_tree(folder);
    std::erase_if(tree, [](const auto& file) { return file.first.find(".offramp-") != std::string::npos; });
    return tree;
}

}  // namespace offramp::test
