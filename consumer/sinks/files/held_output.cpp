#include "consumer/sinks/files/held_output.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// Beyond this number of folders in a tree, the oldest are dropped.
constexpr std::size_t kMostKnown = 1U << 17U;

HeldOutput* held = nullptr;

std::optional<FileIdentity> identity_of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return std::nullopt;
    return FileIdentity{found.st_dev, found.st_ino};
}

}  // namespace

HeldOutput::HeldOutput() {
    expect(held == nullptr, "a process has one output");
    held = this;
}

HeldOutput::~HeldOutput() { held = nullptr; }

const HeldFolder& HeldOutput::hold(const std::string& folder, const std::string& what) {
    const auto found = std::ranges::find(folders_, folder, &HeldFolder::name);
    return found != folders_.end() ? *found : folders_.emplace_back(folder, what);
}

// Returns the innermost held folder: a shard's place is inside the folder that all shards share.
const HeldFolder* HeldOutput::around(const std::string& path) const {
    const HeldFolder* found = nullptr;
    for (const HeldFolder& folder : folders_)
        if (folder.has(path) && (found == nullptr || folder.name().size() > found->name().size())) found = &folder;
    return found;
}

std::string HeldOutput::through(const std::string& path) {
    const HeldFolder* const folder = held == nullptr ? nullptr : held->around(path);
    return folder == nullptr ? path : folder->through(path);
}

bool HeldOutput::holds(const std::string& folder) {
    const HeldFolder* const around = held == nullptr ? nullptr : held->around(folder);
    return around != nullptr && around->name() == folder;
}

void HeldOutput::require_same(const std::string& folder) {
    const HeldFolder* const root = held == nullptr ? nullptr : held->around(folder);
    if (root == nullptr || root->name() == folder) return;
    held->require_known(folder);
    held->take_note(*root, folder);
}

void HeldOutput::require_in_place() {
    for (const HeldFolder& folder : folders_) folder.require_in_place();
    for (const std::string& folder : used_) require_known(folder);
    used_.clear();
}

void HeldOutput::require_known(const std::string& folder) const {
    const auto known = known_.find(folder);
    if (known == known_.end() || identity_of(through(folder)) == known->second) return;
    throw Error(ErrorKind::CannotWrite,
                "the folder " + folder + ", which this run has put results into, was moved or replaced",
                "Put it back, and continue with --resume");
}

// Also records the parent folders, because none of them may be created again.
void HeldOutput::take_note(const HeldFolder& root, const std::string& folder) {
    used_.insert(folder);
    if (known_.contains(folder)) return;
    if (known_.size() >= kMostKnown) known_.clear();
    for (std::string each = folder; each.size() > root.name().size(); each.resize(each.rfind('/'))) {
        if (known_.contains(each)) return require_known(each);
        if (const auto identity = identity_of(through(each))) known_.emplace(each, *identity);
    }
}

}  // namespace offramp
