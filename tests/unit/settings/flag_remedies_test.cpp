#include "common/app/settings/exit_code.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "common/app/settings/setting_group.hpp"

namespace offramp {
namespace {

std::vector<Remedy> all_remedies() {
    std::vector<Remedy> all;
    for (int which = 0; which < static_cast<int>(Remedy::Count); ++which) all.push_back(static_cast<Remedy>(which));
    return all;
}

TEST(FlagRemedies, TheFlagsTheyNameExist) {
    const auto settings = make_settings();
    std::size_t named = 0;
    for (const Remedy which : all_remedies()) {
        const std::string text = flag_remedy(which);
        ASSERT_FALSE(text.empty()) << static_cast<int>(which);
        static const std::regex flag("--([a-z-]+)");
        for (auto at = std::sregex_iterator(text.begin(), text.end(), flag); at != std::sregex_iterator(); ++at) {
            ++named;
            EXPECT_TRUE(std::ranges::any_of(settings, [&](const Setting& one) { return one.flag == (*at)[1].str(); }))
                << at->str() << " in: " << text;
        }
    }
    EXPECT_GE(named, all_remedies().size());
}

TEST(FlagRemedies, TheLibrarysTextsNameNone) {
    for (const Remedy which : all_remedies()) {
        const std::string text = library_remedy(which);
        EXPECT_FALSE(text.empty()) << static_cast<int>(which);
        EXPECT_EQ(text.find("--"), std::string::npos) << text;
    }
}

TEST(FlagRemedies, AnErrorNamesTheOptionsOfItsInterface) {
    EXPECT_EQ(remedy(Remedy::RunAgain), library_remedy(Remedy::RunAgain));
    put_remedies(flag_remedy);
    EXPECT_EQ(remedy(Remedy::RunAgain), flag_remedy(Remedy::RunAgain));
    EXPECT_NE(remedy(Remedy::RunAgain), library_remedy(Remedy::RunAgain));
    put_remedies(library_remedy);
}

}  // namespace
}  // namespace offramp
