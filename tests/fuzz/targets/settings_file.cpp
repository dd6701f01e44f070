// A run's configuration file, and the small languages of single settings.

#include "common/base/error.hpp"
#include "common/config/error_limit.hpp"
#include "common/config/flat_toml.hpp"
#include "common/config/output_shapes.hpp"
#include "common/config/run_config.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"

namespace offramp {

FuzzTarget make_settings_file() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        OutputShapes::parse(as_text(input));
        if (const auto limit = ErrorLimit::parse(as_text(input))) limit->exceeded(3, 100);
        const std::string path = folder->write("run.toml", input);
        const char* const argv[] = {"offramp-producer", "--config", path.c_str()};
        try {
            parse_run_config(3, argv, argv[0]);
        } catch (const ConfigError& refused) {
            expect(!std::string_view(refused.what()).empty(), "a refusal says why");
        }
    };
    return {feed,
            {"# nightly\nbatch = 64\nmodel = \"copy\"\nlease-seconds = 0.5\nkill-overdue = true\n", "max-errors = \"1%\"\n",
             "96x256x256,192x128x128", "0.5%", "run-id = 'a'\noutput = \"\\u00e9\\n\"\n"}};
}

}  // namespace offramp
