#include "producer/ladder/rung_egress.hpp"

#include <gmock/gmock.h>

#include "common/app/settings/declared_setting.hpp"
#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using Slabs = EgressTraits::Slabs;

RunConfig with_rung(const char* rung) {
    RunConfig config;
    config.catalogue.put("strategy", rung);
    return config;
}

EgressTraits traits_of(const char* rung) { return RungEgress::chosen_by(with_rung(rung))->traits(); }

TEST(RungEgress, ReportsSlabLocationsToTheRun) {
    EXPECT_EQ(traits_of("sequential").slabs, Slabs::None);
    EXPECT_EQ(traits_of("workers").slabs, Slabs::MadePerFilling);
    EXPECT_EQ(traits_of("pool").slabs, Slabs::Pool);
    EXPECT_EQ(traits_of("async").slabs, Slabs::PageLockedPool);
    EXPECT_EQ(traits_of("streams").slabs, Slabs::PageLockedPool);
    EXPECT_EQ(traits_of("compute-alone").slabs, Slabs::None);
}

TEST(RungEgress, OnlyTheModelRungDropsItsOutputs) {
    for (const char* rung : {"sequential", "workers", "pool", "async", "streams"})
        EXPECT_FALSE(traits_of(rung).outputs_dropped) << rung;
    EXPECT_TRUE(traits_of("compute-alone").outputs_dropped);
}

TEST(RungEgress, OnlyTheOwnStreamSharesSlabs) {
    for (const char* rung : {"sequential", "workers", "pool", "async", "compute-alone"}) {
        EXPECT_FALSE(traits_of(rung).batches_share_slabs) << rung;
        EXPECT_NE(traits_of(rung).warning, "") << rung;
    }
    EXPECT_TRUE(traits_of("streams").batches_share_slabs);
    EXPECT_EQ(traits_of("streams").warning, "");
}

TEST(RungEgress, IsNamedByItsRungAndDefaultsToTheRuns) {
    EXPECT_EQ(traits_of("pool").name, "pool");
    EXPECT_EQ(EgressTraits{}.name, ChosenEgress::in({}).name);
}

TEST(RungEgress, TakesNothingOverWithoutPersistentSlabs) {
    for (const char* rung : {"sequential", "workers", "pool", "async", "streams", "compute-alone"}) {
        RunConfig config = with_rung(rung);
        config.recover = true;
        const bool keeps_slabs = traits_of(rung).has_pool();
        if (keeps_slabs) {
            EXPECT_NO_THROW(RungEgress::chosen_by(config)) << rung;
        } else {
            EXPECT_THROW(RungEgress::chosen_by(config), ConfigError) << rung;
        }
    }
}

TEST(RungEgress, OnlyTheOwnStreamMayDoMoreThanWaitWhenFull) {
    for (const char* rung : {"sequential", "workers", "pool", "async", "compute-alone"}) {
        RunConfig config = with_rung(rung);
        config.when_full = "spill";
        EXPECT_THAT(test::error_of<ConfigError>([&] { RungEgress::chosen_by(config); }),
                    testing::AllOf(testing::HasSubstr("--when-full 'spill' does not go with"),
                                   testing::HasSubstr("Choose --strategy streams")))
            << rung;
    }
    RunConfig config;
    config.when_full = "spill";
    EXPECT_NO_THROW(RungEgress::chosen_by(config));
}

}  // namespace
}  // namespace offramp
