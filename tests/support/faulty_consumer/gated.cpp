#include "tests/support/faulty_consumer/gated.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/error.hpp"
#include "tests/support/faulty_consumer/test_setting.hpp"

namespace offramp::faulty {
namespace {

// Opened for reading and writing, so that opening never waits for the other end or sees it close.
UniqueFd open_fifo(const char* variable) {
    const std::string path = required_setting(variable);
    UniqueFd fifo(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fifo) throw SystemError("opening the FIFO " + path + " of " + variable, errno);
    return fifo;
}

}  // namespace

Gated::Gated(std::unique_ptr<Processor> inner)
    : inner_(std::move(inner)), entered_(open_fifo("OFFRAMP_TEST_ENTERED")), gate_(open_fifo("OFFRAMP_TEST_GATE")) {}

void Gated::process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) {
    if (!open_) {
        announce(slab.samples.empty() ? 0 : slab.samples.front().item);
        wait_at_gate(progress);
    }
    inner_->process(slab, progress, still_current);
}

void Gated::wait_at_gate(const Progress& progress) {
    char word = next_word();
    for (; word == 'p'; word = next_word()) progress();
    open_ = word == 'o';
    if (open_) pass_on(word);
}

void Gated::announce(std::uint64_t item) const {
    // Short enough for an atomic write to a FIFO.
    const std::string line = std::to_string(::getpid()) + " " + std::to_string(item) + "\n";
    if (::write(entered_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        throw SystemError("announcing a slab", errno);
}

char Gated::next_word() const {
    char word = 0;
    while (::read(gate_.get(), &word, 1) != 1)
        if (errno != EINTR) throw SystemError("waiting at the gate", errno);
    return word;
}

void Gated::pass_on(char word) const {
    if (::write(gate_.get(), &word, 1) != 1) throw SystemError("opening the gate for the others", errno);
}

}  // namespace offramp::faulty
