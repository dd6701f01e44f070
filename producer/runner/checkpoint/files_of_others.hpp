#pragma once

#include <span>

#include "common/base/item_ranges.hpp"
#include "common/settings/catalogue_values.hpp"
#include "common/settings/sections/result_settings.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Looks whether files that no run of ours left lie where files of this run's single items go: they would be replaced.
// `share`: the items that it makes (share_of()); those of others are other runs' to look at.
// Ours is what the folder's checkpoint accounts for, an item of its run's for a processor of its run's that put it
// there, and what is noted beside it (ReplacedItems). Reads the folders that results go to, once each, and nothing
// where these hold no file of such a name. Results of a processor of the user's own are not known. `outputs`: what
// consumers get. Blocks: on the file system. Errors: ConfigError (Usage) naming file, item and the ways out.
void require_no_files_of_others(const ResultSettings& config, const CatalogueValues& catalogue,
                                const BatchSource& source, ItemRange share, std::span<const TensorSpec> outputs,
                                std::uint32_t upsample_factor);

}  // namespace offramp
