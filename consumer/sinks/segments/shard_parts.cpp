#include "consumer/sinks/segments/shard_parts.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
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
                fail("item " + std::to_string(item) + " stands behind " + std::to_string(*last_));
            last_ = item;
            return records_;
        }
        return {};
    }

  private:
    std::string path() const { return parts_[part_].folder + "/" + file_; }
    std::string scratch() const {
        return parts_[part_].folder + "/" + std::string(kReservedPrefix) + "joined-" + file_;
    }

    // False: there are no more.
    bool begin_item() {
        for (; part_ < parts_.size(); close(), ++part_) {
            if (!open_) open_.emplace(form_.records_of(path(), scratch()));
            if (at_ < open_->size()) return true;
        }
        return false;
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
        if (!open_) return;
        open_.reset();
        at_ = 0;
        std::error_code ignored;
        fs::remove(scratch(), ignored);
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw ProtocolError(path() + " is damaged: " + what,
                            "Remove it and what else is in its folder, and that shard's record in done/; then run the "
                            "shard again");
    }

    std::span<const ShardPart> parts_;
    std::string file_;
    const SegmentForm& form_;
    std::size_t part_ = 0;
    std::optional<RecordFile> open_;
    std::uint64_t at_ = 0;
    std::optional<std::uint64_t> last_;
    std::string records_;
};

}  // namespace

void join_parts(std::span<const ShardPart> parts, const std::string& file, const std::string& output_file,
                Durability durability, const SegmentForm& form) {
    std::vector<ShardPart> there;
    for (const ShardPart& part : parts)
        if (std::error_code failure; fs::exists(part.folder + "/" + file, failure)) there.push_back(part);
    if (there.empty()) return;
    PartsInTurn records(there, file, form);
    failpoint("merge.write");
    form.write(
        output_file, [&records] { return records.next(); }, durability);
}

}  // namespace offramp
