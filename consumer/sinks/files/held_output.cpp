#include "consumer/sinks/files/held_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// At this number of folders in a tree, a process forgets them all, and shares no more.
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
    if (!held->known_.contains(folder)) held->read_notes();
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
    if (known_.size() >= kMostKnown) {
        known_.clear();
        notes_ = UniqueFd();
    }
    for (std::string each = folder; each.size() > root.name().size(); each.resize(each.rfind('/'))) {
        if (known_.contains(each)) return require_known(each);
        if (const auto identity = identity_of(through(each))) note(each, *identity);
    }
}

void HeldOutput::share_notes(const std::string& file) {
    notes_ = UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
}

void HeldOutput::require_noted(const std::string& folder) {
    read_notes();
    for (const auto& [each, identity] : known_)
        if (each == folder || each.starts_with(folder + "/")) require_known(each);
}

void HeldOutput::note(const std::string& folder, FileIdentity identity) {
    if (!notes_) {
        known_.emplace(folder, identity);
        return;
    }
    const std::string text = fmt::format("{} {} {}", identity.device, identity.inode, folder);
    if (::write(notes_.get(), text.c_str(), text.size() + 1) != static_cast<ssize_t>(text.size() + 1)) {
        notes_ = UniqueFd();
        return note(folder, identity);
    }
    read_notes();
    require_known(folder);
}

void HeldOutput::read_notes() {
    std::array<char, 4096> bytes{};
    for (ssize_t got = 0; notes_ && (got = ::pread(notes_.get(), bytes.data(), bytes.size(), read_to_)) > 0;) {
        unread_.append(bytes.data(), static_cast<std::size_t>(got));
        read_to_ += got;
    }
    std::string_view rest = unread_;
    for (std::size_t end = 0; (end = rest.find('\0')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
        const std::string_view line = rest.substr(0, end);
        FileIdentity identity;
        const auto device = std::from_chars(line.data(), line.data() + line.size(), identity.device);
        if (device.ec != std::errc{} || device.ptr == line.data() + line.size()) continue;
        const auto inode = std::from_chars(device.ptr + 1, line.data() + line.size(), identity.inode);
        if (inode.ec != std::errc{} || inode.ptr == line.data() + line.size()) continue;
        known_.emplace(std::string(inode.ptr + 1, line.data() + line.size()), identity);
    }
    unread_.erase(0, unread_.size() - rest.size());
}

}  // namespace offramp
