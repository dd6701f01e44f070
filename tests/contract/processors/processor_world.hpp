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

namespace offramp::test {

// A folder that is removed with everything in it. In memory nothing waits for a disk's flushes, of which databases make
// many.
class ScratchFolder {
  public:
    enum class On { Disk, Memory };
    explicit ScratchFolder(On place = On::Disk);
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder();
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// Every file below a folder by its relative path, with its bytes, and every folder with an empty text. Of a database
// its rows, for its bytes depend on who wrote first. The rows of the folder's table in PostgreSQL are one more file.
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

// A list of images in this size, the originals of all samples of make_slab() and of some other keys that images can
// have. Made once, in a folder of the process's own.
inline constexpr ImageSize kOriginalSize{9, 6};
const std::string& originals();

// Why a processor cannot be tested here: those that write to a PostgreSQL want OFFRAMP_TEST_POSTGRES to name a server
// (tests/contract/postgres has one), embeddings-parquet a build with pyarrow. Else empty.
std::string missing_requirement(const std::string& processor);

// The settings with which a processor leaves results in `folder`: `http` by way of a server that keeps there what it is
// sent.
RunConfig config_for(const std::string& processor, const std::string& folder);

// A processor of the names' kinds, ours or somebody's (consumer/hosts). Errors: as make_processor().
std::unique_ptr<Processor> made(const std::string& names, const RunConfig& config);
// What can stand in a name's place: every processor of ours, and the same of somebody's as a shared object, as a
// program and in Python (tests/support/own_processor), which leave KEY.sum and a record of each sample.
std::vector<std::string> names_of_all();
std::vector<std::string> names_of_hosted();
bool is_hosted(const std::string& name);
// Each slab in a process of its own, which tells nothing of its progress and asks for nothing.
bool runs_by_consumer(const std::string& name);
// A test's name for it.
std::string word_for(const std::string& name);

// Processes the slabs as one consumer would, which is gone afterwards.
void process_all(const RunConfig& config, const std::vector<MemorySlab>& slabs);
// The same, then finishes the run; returns what lies in the folder.
Tree run_over(const RunConfig& config, const std::string& folder, const std::vector<MemorySlab>& slabs);

// Writes the checkpoint that the producer of a run with these settings writes: with its first result, and when it has
// come to its end.
enum class Came { ToAResult, ToItsEnd, ToItsEndButForSome };
void note_run(const RunConfig& config, Came came);
// read_tree() without what is the programs' own: what a user of the folder sees.
Tree results_in(const std::string& folder);

inline const Progress kNoProgress = [] {};
inline const StillCurrent kCurrent = [] { return true; };

}  // namespace offramp::test
