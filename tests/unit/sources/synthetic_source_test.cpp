#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

struct SyntheticSource : ::testing::Test {
    SyntheticSource() {
        config.batches = 5;
        config.batch = 4;
        config.seed = 3;
    }

    std::unique_ptr<BatchSource> make() {
        const auto entries = SourceEntry::all();
        const auto entry =
            std::find_if(entries.begin(), entries.end(), [](const auto& e) { return e.name == "synthetic"; });
        if (entry == entries.end()) throw std::runtime_error("not in the table");
        return entry->make({.input = &config, .model = &config, .model_input = input, .parts = {}});
    }

    std::string error() {
        return test::error_of<ConfigError>([&] { make(); }, ErrorKind::Usage);
    }

    std::vector<float> row(BatchSource& source, std::uint64_t item) {
        std::vector<float> values(input.elements() / 4);
        source.load(item, std::as_writable_bytes(std::span(values)));
        return values;
    }

    RunConfig config;
    TensorSpec input = TensorSpec::contiguous("input", kFloat32, std::vector<std::int64_t>{4, 3, 20, 20});
};

TEST_F(SyntheticSource, NumbersItsItems) {
    const auto source = make();
    EXPECT_EQ(source->items(), 20U);
    EXPECT_EQ(source->row_kind(), RowKind::Float32);
    EXPECT_EQ(source->key(7), "");
    EXPECT_EQ(source->max_key_bytes(), 0U);
}

TEST_F(SyntheticSource, ItsItemsNeedNoIndividualNotesOrFiles) {
    config.batches = std::uint64_t{1} << 50;
    const auto source = make();
    EXPECT_FALSE(source->has_notes());
    EXPECT_EQ(source->note_hash(19), 0U);
    EXPECT_FALSE(source->has_files());
    EXPECT_EQ(source->file(19), "");
    EXPECT_EQ(source_fingerprint(*source).size(), 16U) << "and in a short time";
}

TEST_F(SyntheticSource, AnItemIsTheSameInEveryRun) {
    const auto source = make();
    const auto again = make();
    EXPECT_EQ(row(*source, 19), row(*again, 19));
    EXPECT_NE(row(*source, 19), row(*source, 18));
    config.seed = 4;
    EXPECT_NE(row(*make(), 19), row(*source, 19));
}

TEST_F(SyntheticSource, HasNoRowsWhenResidentOnTheDevice) {
    config.synthetic_on = "device";
    EXPECT_EQ(make()->row_kind(), RowKind::Nothing);
    EXPECT_EQ(make()->items(), 20U);
}

TEST_F(SyntheticSource, GivesNoRowsToAModelWithoutInput) {
    input = {};
    EXPECT_EQ(make()->row_kind(), RowKind::Nothing);
}

TEST_F(SyntheticSource, NamesBadSettings) {
    config.synthetic_on = "moon";
    EXPECT_THAT(error(), HasSubstr("--synthetic-on 'moon' is unknown. Known: host, device"));
    config.synthetic_on = "host";
    config.batches = 0;
    EXPECT_THAT(error(), HasSubstr("--batches is 0"));
    config.batches = std::numeric_limits<std::uint64_t>::max() / 2;
    EXPECT_THAT(error(), HasSubstr("more items than can be counted"));
}

}  // namespace
}  // namespace offramp
