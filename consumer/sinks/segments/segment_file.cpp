#include "consumer/sinks/segments/segment_file.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <span>

#include "common/base/log.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {

std::string segment_folder(const std::string& folder, std::string_view name) {
    return folder + "/" + std::string(kReservedPrefix) + "segments/" + std::string(name);
}

std::string segment_file_name(std::uint64_t batch, std::uint32_t row, std::string_view text) {
    return fmt::format("{:012}-{:06}-{:016x}.tsv", batch, row, XXH3_64bits(text.data(), text.size()));
}

bool is_segment_name(std::string_view file_name) {
    const std::size_t first = file_name.find('-');
    return first != std::string_view::npos && first > 0 &&
           std::isdigit(static_cast<unsigned char>(file_name[0])) != 0 && file_name.ends_with(".tsv") &&
           std::count(file_name.begin(), file_name.end(), '-') == 2;
}

void SegmentFile::begin(std::uint64_t batch, std::uint32_t row) {
    text_.clear();
    batch_ = batch;
    row_ = row;
}

void SegmentFile::add_line(std::uint64_t item, std::initializer_list<std::string_view> fields) {
    text_ += std::to_string(item);
    for (const std::string_view field : fields) {
        text_ += '\t';
        text_ += escaped(field);
    }
    text_ += '\n';
}

void SegmentFile::add_json(std::uint64_t item, std::string_view members) {
    text_ += kJsonLine;
    text_ += std::to_string(item);
    text_ += ',';
    text_ += members;
    text_ += "}\n";
}

void SegmentFile::commit() {
    if (text_.empty()) return;
    write_atomically(folder_ + "/" + segment_file_name(batch_, row_, text_), std::as_bytes(std::span(text_)),
                     durability_);
    text_.clear();
}

}  // namespace offramp
