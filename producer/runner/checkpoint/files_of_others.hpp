#pragma once

#include <span>

#include "common/app/settings/catalogue_values.hpp"
#include "common/app/settings/sections/result_settings.hpp"
#include "common/base/item_ranges.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Refuses to replace files of single items that no Offramp run made. `share`: the items that this run processes
// (share_of()); other runs check the rest.
// A file counts as Offramp's if the folder's checkpoint lists its item, for one of that run's processors that puts
// files there, or if ReplacedItems lists it. Reads each result folder once, and nothing else if it holds no file of
// such a name. Results of a user's own processor are unknown. `outputs`: the tensors for consumers. Blocks: on the file
// system. Errors: ConfigError (Usage) naming file, item and the ways out.
void require_no_files_of_others(const ResultSettings& config, const CatalogueValues& catalogue,
                                const BatchSource& source, ItemRange share, std::span<const TensorSpec> outputs,
                                std::uint32_t upsample_factor);

}  // namespace offramp
