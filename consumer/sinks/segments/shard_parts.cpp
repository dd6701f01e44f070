#include "consumer/sinks/segments/shard_parts.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/reserved_prefix.hpp"
#include "consumer/sinks/segments/record_file.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// The records of one part after the other, item by item.
class PartsInTurn {
  public:
    // Borrows all. `parts`: those that have the file.
    PartsInTurn(std::span<const ShardPart> parts, std::string file, const SegmentForm& form)
        : parts_(parts), file_(std::move(file)), form_(form) {}
    PartsInTurn(const PartsInTurn&) = delete;
    PartsInTurn& operator=(const PartsInTurn&) = delete;
    ~PartsInTurn() { close(); }

    std::string_view next() {
        while (begin_item()) {
            const std::uint64_t item = take_item();
            const ItemRange& share = parts_[part_].items;
            if (item < share.begin || item >= share.end) continue;
            if (last_ && item <= *last_)
                fail("item " + std::to_string(item) + " comes after " + std::to_string(*last_));
            last_ = item;
            return records_;
        }
        return {};
    }

  private:
    std::string path() const { return parts_[part_].folder + "/" + file_; }
    // False: there are no more.
    bool begin_item() {
        for (; part_ < parts_.size(); close(), ++part_) {
            if (!open_) open();
            if (at_ < open_->size()) return true;
        }
        return false;
    }

    void open() {
        scratch_ = parts_[part_].scratch(file_);
        open_.emplace(form_.records_of(path(), scratch_));
    }

    // Its number.
    std::uint64_t take_item() {
        records_.clear();
        std::optional<std::uint64_t> item;
        while (at_ < open_->size()) {
            const SegmentRecord record = record_at(*open_, at_, form_);
            if (record.damage != nullptr) fail(record.damage);
            if (item && record.item != *item) break;
            item = record.item;
            records_ += open_->from(at_, record.bytes).substr(0, record.bytes);
            at_ += record.bytes;
        }
        return *item;
    }

    void close() {
        open_.reset();
        at_ = 0;
        std::error_code ignored;
        if (!scratch_.empty()) fs::remove(scratch_, ignored);
        scratch_.clear();
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw ProtocolError(path() + " is damaged: " + what, parts_[part_].to_do_again);
    }

    std::span<const ShardPart> parts_;
    std::string file_;
    const SegmentForm& form_;
    std::size_t part_ = 0;
    std::optional<RecordFile> open_;
    std::uint64_t at_ = 0;
    std::optional<std::uint64_t> last_;
    std::string records_, scratch_;
};

}  // namespace

bool ShardPart::has(const std::string& file) const {
    if (std::ranges::find(files, file) == files.end()) return false;
    const std::string path = folder + "/" + file;
    std::error_code failure;
    if (fs::exists(path, failure)) return true;
    throw Error(
        ErrorKind::BadInput,
        path + ", listed in the shard's record, " + (failure ? "cannot be accessed: " + failure.message() : "is gone"),
        "Check that the shared folder is mounted on this host. If it is: " + to_do_again);
}

std::string ShardPart::scratch(const std::string& file) const {
    return fmt::format("{}/{}joined-{}-{}-{:08x}{:08x}", folder, kReservedPrefix, file, ::getpid(),
                       std::random_device()(), std::random_device()());
}

void join_parts(std::span<const ShardPart> parts, const std::string& file, const std::string& output_file,
                Durability durability, const SegmentForm& form) {
    std::vector<ShardPart> there;
    for (const ShardPart& part : parts)
        if (part.has(file)) there.push_back(part);
    if (there.empty()) return;
    PartsInTurn records(there, file, form);
    failpoint("parts.join");
    form.write(
        output_file, [&records] { return records.next(); }, durability);
}

}  // namespace offramp
