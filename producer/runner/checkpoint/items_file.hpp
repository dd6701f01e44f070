#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/list_index.hpp"
#include "common/base/files.hpp"
#include "common/base/items.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// OUTPUT/.offramp-items, beside the checkpoint if items have keys (Checkpoint::named): hashes_of_items() of its run.
//
//   offset  bytes
//        0      8  "offritem"
//        8      8  version
//       16  8 * N  the hashes, in the items' order
//
// Numbers are little-endian. The checkpoint vouches for the first hashes, one for each of its items: they have the
// fingerprint in its identity. A run writes and flushes the file before that checkpoint, and only if the one there does
// not have these hashes. Hashes beyond those of the checkpoint come from a run that died before it could vouch for
// them: they are ignored.
//
// Version rule: that of the checkpoint.
inline constexpr const char* kItemsFileName = ".offramp-items";
inline constexpr std::uint64_t kItemsFileVersion = 1;

// The file in an output folder with this checkpoint. Blocks: on the file system. Errors: Error with BadInput if it is
// missing, too short, or not the checkpoint's; SystemError, as in open_own_file().
std::vector<std::uint64_t> read_items_file(const std::string& folder, const Checkpoint& checkpoint);

// A file without hashes yet. Write these, flush it, and put it in place before the checkpoint. `path`: its final one.
// `many_may_write`: see CheckpointWriter. Errors: those of `failure`, here and in the file's functions.
std::unique_ptr<WholeFile> new_items_file(const std::string& path, const WriteFailure& failure,
                                          bool many_may_write = false);
void write_hashes(WholeFile& file, std::span<const std::uint64_t> hashes);

// Copies the hashes in the items file of a job's list. Errors: SystemError; Error with BadInput if they are not the
// list's.
void copy_hashes(WholeFile& file, const ListIndex& of_job);
// Compares only the hashes of `items` with the keys of `source`. Errors: those of copy_hashes().
void require_hashes(const ListIndex& of_job, ItemRange items, const BatchSource& source);
// Makes `path` another name of the items file `from`. Returns false if it cannot: another file is there, or the file
// system makes no such link. The file is never changed, only replaced.
bool link_items_file(const std::string& from, const std::string& path);

}  // namespace offramp
