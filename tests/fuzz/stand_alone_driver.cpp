// A small libFuzzer for compilers without it: mutates inputs of a corpus, keeps those that reach new code (g++'s
// -fsanitize-coverage=trace-pc), and writes the input that ended the process. The same seed gives the same inputs.
//
//   PROGRAM [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-max_len=N] [-artifact_prefix=PATH] CORPUS_FOLDER_OR_FILE...

#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): the names are libFuzzer's
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);
// NOLINTEND(readability-identifier-naming)

namespace {

constexpr std::size_t kPlaces = 1U << 16;
constexpr unsigned kSecondsAnInput = 25;
std::array<std::uint8_t, kPlaces> reached{};  // counts in this run of the target
std::array<std::uint8_t, kPlaces> known{};    // bits of the counts' logarithms over all runs
std::uintptr_t last_place = 0;

using Input = std::vector<unsigned char>;
Input current;
std::string artifact_prefix = "./";

// Uses only calls that are allowed in a dying process.
void keep_current() {
    const std::string path = artifact_prefix + "crash-" + std::to_string(::getpid());
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return;
    [[maybe_unused]] const auto written = ::write(file, current.data(), current.size());
    ::close(file);
    std::fprintf(stderr, "the input is in %s\n", path.c_str());
}

void on_signal(int number) {
    if (number == SIGALRM) std::fprintf(stderr, "no end within %u s\n", kSecondsAnInput);
    keep_current();
    ::signal(number, SIG_DFL);
    ::raise(number);
}

// True if this run reached a new place, or a known place with a new order of magnitude of counts.
bool news() {
    bool any = false;
    for (std::size_t place = 0; place < kPlaces; ++place) {
        if (reached[place] == 0) continue;
        const auto bit = static_cast<std::uint8_t>(1U << std::min(7, 32 - __builtin_clz(reached[place]) - 1));
        any = any || (known[place] & bit) == 0;
        known[place] |= bit;
        reached[place] = 0;
    }
    last_place = 0;
    return any;
}

bool run(Input input) {
    current = std::move(input);
    ::alarm(kSecondsAnInput);
    LLVMFuzzerTestOneInput(current.data(), current.size());
    ::alarm(0);
    return news();
}

class Mutator {
  public:
    Mutator(std::uint64_t seed, std::size_t longest, std::size_t seeds)
        : random_(seed), longest_(longest), seeds_(seeds) {}

    Input child(const std::vector<Input>& corpus) {
        Input input = corpus[parent(corpus.size())];
        for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input, corpus);
        if (input.size() > longest_) input.resize(longest_);
        return input;
    }

  private:
    // A quarter seeds, because most new inputs are only refused in a new way; a quarter of the newest inputs.
    std::size_t parent(std::size_t inputs) {
        switch (below(4)) {
            case 0:
                return below(seeds_);
            case 1:
                return std::max(below(inputs), below(inputs));
            default:
                return below(inputs);
        }
    }

    std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(random_() % limit); }

    void change(Input& input, const std::vector<Input>& corpus) {
        static constexpr std::array<std::uint64_t, 12> kBoundaries{
            0, 1, 127, 128, 255, 256, 65535, 65536, 0x7fffffff, 0xffffffff, 1ULL << 63, ~0ULL};
        const std::size_t at = below(input.size() + 1);
        const auto from = input.begin() + static_cast<std::ptrdiff_t>(at);
        switch (below(9)) {
            case 0:
                if (at < input.size()) input[at] = static_cast<unsigned char>(input[at] ^ (1U << below(8)));
                break;
            case 1:
                if (at < input.size()) input[at] = static_cast<unsigned char>(random_());
                break;
            case 2:
                if (at < input.size()) input[at] = static_cast<unsigned char>(input[at] + below(35) - 17);
                break;
            case 3:
                put_number(input, at, kBoundaries[below(kBoundaries.size())]);
                break;
            case 4:
                put_number(input, at, input.size() + below(9) - 4);
                break;
            case 5:
                input.erase(
                    from, from + static_cast<std::ptrdiff_t>(below(std::min<std::size_t>(input.size() - at, 32) + 1)));
                break;
            case 6:
                input.insert(from, 1 + below(16), static_cast<unsigned char>(random_()));
                break;
            case 7: {  // a copy of a piece of the input
                const std::size_t begin = below(input.size() + 1);
                const Input piece(
                    input.begin() + static_cast<std::ptrdiff_t>(begin),
                    input.begin() + static_cast<std::ptrdiff_t>(
                                        begin + below(std::min<std::size_t>(input.size() - begin, 64) + 1)));
                input.insert(from, piece.begin(), piece.end());
                break;
            }
            case 8: {  // the end of another input
                const Input& other = corpus[below(corpus.size())];
                input.resize(at);
                input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(std::min(at, other.size())),
                             other.end());
                break;
            }
        }
    }

    void put_number(Input& input, std::size_t at, std::uint64_t number) {
        const std::size_t bytes = std::size_t{1} << below(4);
        for (std::size_t i = 0; i < bytes && at + i < input.size(); ++i)
            input[at + i] = static_cast<unsigned char>(number >> (8 * i));
    }

    std::mt19937_64 random_;
    std::size_t longest_;
    std::size_t seeds_;
};

struct Options {
    std::uint64_t runs = ~0ULL;
    std::uint64_t seconds = 0;  // 0: no limit
    std::uint64_t seed = 1;
    std::size_t longest = 4096;
    std::vector<std::filesystem::path> corpus;
};

Options read_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto number = [&word] { return std::strtoull(word.c_str() + word.find('=') + 1, nullptr, 10); };
        if (word.starts_with("-runs="))
            options.runs = number();
        else if (word.starts_with("-max_total_time="))
            options.seconds = number();
        else if (word.starts_with("-seed="))
            options.seed = number();
        else if (word.starts_with("-max_len="))
            options.longest = number();
        else if (word.starts_with("-artifact_prefix="))
            artifact_prefix = word.substr(word.find('=') + 1);
        else if (!word.starts_with('-'))
            options.corpus.emplace_back(word);
    }
    return options;
}

std::vector<Input> read_corpus(const Options& options) {
    std::vector<Input> corpus;
    const auto add = [&corpus](const std::filesystem::path& path) {
        std::ifstream file(path, std::ios::binary);
        corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    };
    for (const auto& path : options.corpus) {
        if (!std::filesystem::is_directory(path)) {
            add(path);
            continue;
        }
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
        std::sort(files.begin(), files.end());  // the same order on each machine
        for (const auto& file : files) add(file);
    }
    if (corpus.empty()) corpus.push_back({0});
    return corpus;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the compiler's name
extern "C" void __sanitizer_cov_trace_pc() {
    const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    std::uint8_t& count = reached[(place ^ (place >> 16) ^ last_place) % kPlaces];
    if (count < 255) ++count;
    last_place = place >> 1;
}

int main(int argc, char** argv) {
    LLVMFuzzerInitialize(&argc, &argv);
    const Options options = read_options(argc, argv);
    __sanitizer_set_death_callback(keep_current);
    for (const int number : {SIGABRT, SIGALRM}) ::signal(number, on_signal);
    std::vector<Input> corpus = read_corpus(options);
    const auto seeds = corpus;
    news();
    for (const Input& seed : seeds) run(seed);
    Mutator mutator(options.seed, options.longest, seeds.size());
    const auto began = std::chrono::steady_clock::now();
    const auto seconds = [&began] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    std::uint64_t runs = 0;
    while (runs < options.runs && (options.seconds == 0 || seconds() < static_cast<double>(options.seconds))) {
        ++runs;
        Input child = mutator.child(corpus);
        if (run(child)) corpus.push_back(std::move(child));
    }
    std::fprintf(stderr, "%llu runs in %.0f s, corpus %zu\n", static_cast<unsigned long long>(runs), seconds(),
                 corpus.size());
    std::_Exit(0);
}
