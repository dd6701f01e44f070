// A run's configuration file, the metadata beside a model's file, and the small languages of single settings.

#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/toml.hpp"
#include "common/base/error.hpp"
#include "producer/runner/models/model_metadata.hpp"
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
            expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
        }
        try {
            const ModelMetadata metadata = parse_model_metadata(as_text(input), "model.toml");
            expect(metadata.batch <= 65536 && metadata.height <= 8192 && metadata.width <= 8192,
                   "sizes are within their bounds");
            expect(metadata.inputs.size() <= 16 && (metadata.inputs.empty() || metadata.input_shape.empty()),
                   "inputs are described in one way");
            for (const InputMetadata& one : metadata.inputs) {
                expect(!one.name.empty() && !one.name.starts_with('.') && one.name.find('/') == std::string::npos,
                       "a name is that of a file");
                expect(one.tokens.empty() == metadata.takes_arrays(), "all are arrays, or none");
                if (metadata.takes_tokens())
                    expect(one.shape == std::vector<std::int64_t>{metadata.token_length()}, "tokens have one length");
            }
            for (const float deviation : metadata.std) expect(deviation > 0, "nothing is divided by zero");
        } catch (const ConfigError& refused) {
            expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
        }
    };
    return {
        feed,
        {"# nightly\nbatch = 64\nmodel = \"copy\"\nvisibility-timeout = 0.5\nkill-stalled = true\n",
         "max-errors = \"1%\"\n", "96x256x256,192x128x128", "0.5%", "run-id = 'a'\noutput = \"\\u00e9\\n\"\n",
         "image-size = \"384x512\"\nmean = \"0.1, 0.2,0.3\"\nstd = \"1,2,3\"\noutputs = \"out, aux\"\n",
         "batch = 4\nimage-size = 520\ncolour-order = \"bgr\"\nrandom-weights = true\ninput-shape = \"128x256\"\n",
         "[[input]]\nname = \"features\"\nshape = \"3x16\"\n[[input]]\nname = \"ids\"\nshape = 5\ndtype = \"int64\"\n",
         // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one file, in two lines
         "[[input]]\nname = \"input_ids\"\ntokens = \"ids\"\nshape = 128\n[[input]]\nname = \"m\"\ntokens = "
         "\"mask\"\nshape = 128\n"}};
}

}  // namespace offramp
