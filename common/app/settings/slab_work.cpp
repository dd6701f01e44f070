#include "common/app/settings/slab_work.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/setting.hpp"

namespace offramp {
namespace {

std::string shown(const std::string& value) { return value.empty() ? "nothing" : "'" + value + "'"; }

}  // namespace

SlabWork SlabWork::of(const RunConfig& config) {
    SlabWork work;
    for (const Setting& setting : make_settings())
        if (setting.effect.makes_work(config)) work.facts[setting.flag] = setting.compared(config);
    return work;
}

// It is not a defence: any process that may send a Hello may send any hash.
std::uint64_t SlabWork::hash() const {
    std::string text;
    for (const auto& [fact, value] : facts) {  // no setting has a NUL
        text += fact + '\0';
        text += value + '\0';
    }
    return XXH3_64bits(text.data(), text.size());
}

std::string SlabWork::difference(const RunConfig& config, const RunConfig& wanted) {
    std::string text;
    for (const Setting& setting : make_settings()) {
        if (!setting.effect.makes_work(config) && !setting.effect.makes_work(wanted)) continue;
        const std::string is = setting.compared(config), was = setting.compared(wanted);
        if (is != was)
            text += (text.empty() ? "--" : ", --") + setting.flag + " is " + shown(is) + " and should be " + shown(was);
    }
    return text;
}

}  // namespace offramp
