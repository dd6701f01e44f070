#include "common/app/texts/open_texts.hpp"

#include "common/app/texts/jsonl_texts.hpp"
#include "common/app/texts/parquet_texts.hpp"
#include "common/base/error.hpp"

namespace offramp {

std::unique_ptr<TextTable> open_texts(const InputSettings& config, const StillWanted& still_wanted) {
    if (config.source == "jsonl-text") return std::make_unique<JsonlTexts>(config, still_wanted);
    expect(config.source == "parquet-text", "it is asked first whether a source gives tables of texts");
    return std::make_unique<ParquetTexts>(config, still_wanted);
}

}  // namespace offramp
