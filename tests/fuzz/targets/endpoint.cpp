// The file by which a run is found, and a sender's credentials in libzmq's spelling.

#include "common/transport/endpoint.hpp"

#include <filesystem>

#include "common/base/error.hpp"
#include "common/transport/peer_connections.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"

namespace offramp {

FuzzTarget make_endpoint() {
    const auto folder = std::make_shared<ScratchFolder>();
    std::filesystem::create_directory(folder->path() + "/live");
    const auto feed = [folder](std::span<const std::byte> input) {
        parse_peer_address(as_text(input));
        folder->write("live/endpoint", input);
        try {
            const auto endpoint = Endpoint::read(folder->path());
            RunNames::check_run_id(endpoint.value().names.run_id);
        } catch (const ProtocolError& refused) {
            expect(std::string_view(refused.what()).find(folder->path()) != std::string_view::npos,
                   "a refusal names the file");
        }
    };
    return {feed,
            {"offramp-endpoint=1\nrun_id=nightly-7\nnonce=0000000000c0ffee\nproducer_pid=4711\nepoch=1\n",
             "localhost:1000:1000:4711"}};
}

}  // namespace offramp
