#include "common/app/settings/kept_settings.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/given_values.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "common/shm/run_files.hpp"

namespace offramp {
namespace {

GivenValues read_kept(const std::string& run_dir, const std::vector<Setting>& settings) {
    const std::string path = kept_settings_path(run_dir);
    if (::access(path.c_str(), R_OK) != 0)
        throw Error(ErrorKind::NoSuchRun,
                    "the settings of the run in " + run_dir +
                        " cannot be read: " + SystemError("opening " + path, errno).what(),
                    "Its producer writes them when it starts: start the run again");
    return read_file(path, settings);
}

std::string shown(const std::string& value) { return value.empty() ? "nothing" : "'" + value + "'"; }

}  // namespace

RunConfig for_any_folder(RunConfig config) {
    for (const Setting& setting : make_settings()) {
        if (!setting.anywhere) continue;
        const std::string text = to_text(setting.get(config));  // without secrets, so those do not change
        if (const std::string whole = setting.anywhere(text); whole != text) setting.set(config, whole);
    }
    return config;
}

std::string kept_settings_path(const std::string& run_dir) { return run_dir + "/" + run_files::kSettings; }

void keep_settings(const std::string& run_dir, const RunConfig& config) {
    const std::string path = kept_settings_path(run_dir);
    const mode_t mode = config.consumer_user.empty() ? 0600 : 0640;
    WholeFile file(path, mode, [&](int problem) {
        return SystemError("writing " + path, problem,
                           way_to_write(problem, "Give --run-dir a folder that this user may write to"),
                           ErrorKind::CannotWrite);
    });
    file.set_mode(mode);
    // The line at the end is for clients of the producer other than the consumer program.
    file.write(to_toml(for_any_folder(config)) +
               fmt::format("# consumers' work {:016x}\n", SlabWork::of(config).hash()));
    file.put_in_place();
}

bool keeps_settings(const std::string& run_dir) {
    struct stat found {};
    return ::lstat(kept_settings_path(run_dir).c_str(), &found) == 0 || errno != ENOENT;
}

RunConfig kept_settings(const std::string& run_dir) {
    const std::vector<Setting> settings = make_settings();
    const GivenValues kept = read_kept(run_dir, settings);
    RunConfig config;
    for (const Setting& setting : settings) apply(setting, kept, config);
    return config;
}

std::optional<RunConfig> parse_consumer_config(int argc, const char* const* argv, const std::string& program,
                                               const std::string& run_dir) {
    const std::vector<Setting> settings = make_settings();
    auto given = read_given(argc, argv, program, settings);
    if (!given) return std::nullopt;
    const GivenValues kept = read_kept(run_dir, settings);

    RunConfig config;
    for (const Setting& setting : settings)
        if (setting.effect.is_the_runs()) apply(setting, kept, config);
    for (const Setting& setting : settings)
        if (const auto found = given->find(setting.flag);
            found != given->end() && setting.leaves_unset(found->second.text))
            given->erase(found);
    // A given profile counts for the settings in it.
    for (const Setting& setting : settings)
        if (setting.flag == "profile" || setting.flag == "sink") apply(setting, *given, config);
    apply_profile(config.profile, config);
    for (const Setting& setting : settings) apply(setting, *given, config);
    return config;
}

SlabWork SlabWork::of(const RunConfig& config) {
    SlabWork work;
    for (const Setting& setting : make_settings())
        if (setting.effect.makes_work(config)) work.facts[setting.flag] = setting.compared(config);
    return work;
}

// Not a security check: any process that can send a Hello can send any hash.
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
