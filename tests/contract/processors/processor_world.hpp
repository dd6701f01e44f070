#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/processors/processor.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp::test {

// Every file below a folder by its relative path, with its bytes, and every folder with an empty text. A database is
// represented by its rows, for its bytes depend on who wrote first. The rows of the folder's table in PostgreSQL are
// one more file.
using Tree = std::map<std::string, std::string>;
Tree read_tree(const std::string& folder);

// A slab in plain memory, filled through SlabWriter as the producer does.
struct MemorySlab {
    std::unique_ptr<std::byte[]> storage;
    std::size_t bytes = 0;
    SlabTicket ticket;

    SlabContents contents() const;
};

// Items of one input: class scores [3, 5, 7] (float32), an output of ten bytes and a vector of float32, all made from
// the item's number. Item 4 is an empty row. Batches hold four items.
inline constexpr std::uint64_t kItems = 12;
inline constexpr std::uint64_t kItemsInBatch = 4;
inline constexpr std::uint64_t kEmptyRow = 4;
inline constexpr std::int64_t kDimensions = 6;

std::string key_of(std::uint64_t item);

// A slab of items [first, first + count); `key` replaces the key of the first one.
MemorySlab make_slab(std::uint64_t first, std::uint64_t count, const std::string& key = {});

// The same items with samples of different shapes: the class scores of item i are those of its first i % 4 classes.
MemorySlab make_varying_slab(std::uint64_t first, std::uint64_t count);

// A list of images of this size: the originals of all samples of make_slab() and of some further keys. Made once, in a
// folder of this process.
inline constexpr ImageSize kOriginalSize{9, 6};
const std::string& originals();

// Why a processor cannot be tested here, else empty: those that write to PostgreSQL need OFFRAMP_TEST_POSTGRES to name
// a server (tests/contract/postgres has one), embeddings-parquet needs a build with pyarrow.
std::string missing_requirement(const std::string& processor);

// Settings with which a processor leaves results in `folder`; for `http`, a server stores the requests there.
RunConfig config_for(const std::string& processor, const std::string& folder);

// A processor of these names, built-in or custom (consumer/hosts). Errors: as make_processor().
std::unique_ptr<Processor> made(const std::string& names, const RunConfig& config);
// All processors to test: every built-in one, and one custom processor as a shared object, as a program and in Python
// (tests/support/own_processor), which leave KEY.sum and a record of each sample.
std::vector<std::string> names_of_all();
std::vector<std::string> names_of_hosted();
bool is_hosted(const std::string& name);
// True if each slab is processed in a separate process, which reports no progress to this one.
bool runs_by_consumer(const std::string& name);
// The name as part of a test's name.
std::string word_for(const std::string& name);

// Processes the slabs as one consumer that then ends.
void process_all(const RunConfig& config, const std::vector<MemorySlab>& slabs);
// The same, then finishes the run; returns the contents of the folder.
Tree run_over(const RunConfig& config, const std::string& folder, const std::vector<MemorySlab>& slabs);

// Writes the checkpoint that the producer of a run with these settings writes: after its first result, or at its end.
enum class Came { ToAResult, ToItsEnd, ToItsEndButForSome };
void note_run(const RunConfig& config, Came came);
// read_tree() without Offramp's internal files: what a user of the folder sees.
Tree results_in(const std::string& folder);

inline const Progress kNoProgress = [] {};
inline const StillCurrent kCurrent = [] { return true; };

}  // namespace offramp::test
