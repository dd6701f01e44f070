#include "consumer/processors/segmentation/class_runs.hpp"

#include <algorithm>

namespace offramp {
namespace {

// COCO's numbers: five bits a letter from '0' on, the lowest first, a sixth bit while more follow; from the third
// length on the difference to the length of the same kind before it.
std::string compressed(const std::vector<std::uint32_t>& lengths) {
    std::string text;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        std::int64_t number = lengths[i];
        if (i > 2) number -= lengths[i - 2];
        for (bool more = true; more;) {
            auto letter = static_cast<unsigned>(number & 0x1f);
            number >>= 5;
            more = (letter & 0x10U) != 0 ? number != -1 : number != 0;
            if (more) letter |= 0x20U;
            text += static_cast<char>(letter + 48);
        }
    }
    return text;
}

// Blocks of both planes stay in the cache.
constexpr std::uint32_t kBlock = 64;

void turn(std::span<const std::uint8_t> rows, std::uint32_t width, std::uint32_t height, std::uint8_t* columns) {
    for (std::uint32_t y0 = 0; y0 < height; y0 += kBlock)
        for (std::uint32_t x0 = 0; x0 < width; x0 += kBlock)
            for (std::uint32_t x = x0; x < std::min(width, x0 + kBlock); ++x)
                for (std::uint32_t y = y0; y < std::min(height, y0 + kBlock); ++y)
                    columns[std::size_t{x} * height + y] = rows[std::size_t{y} * width + x];
}

}  // namespace

// A run may go on from the foot of a column to the head of the next.
void ClassRuns::add_run(std::uint8_t id, std::uint64_t begin, std::uint64_t end, std::uint32_t height) {
    Reading& reading = readings_[id];
    const auto left = static_cast<std::uint32_t>(begin / height);
    const auto right = static_cast<std::uint32_t>((end - 1) / height);
    const bool one_column = left == right;
    const std::uint32_t top = one_column ? static_cast<std::uint32_t>(begin % height) : 0;
    const std::uint32_t bottom = one_column ? static_cast<std::uint32_t>((end - 1) % height) : height - 1;
    const bool first = reading.lengths.empty();
    reading.left = first ? left : reading.left;
    reading.right = right;
    reading.top = first ? top : std::min(reading.top, top);
    reading.bottom = first ? bottom : std::max(reading.bottom, bottom);
    reading.lengths.push_back(static_cast<std::uint32_t>(begin - reading.end));
    reading.lengths.push_back(static_cast<std::uint32_t>(end - begin));
    reading.area += end - begin;
    reading.end = end;
}

std::span<const ClassMask> ClassRuns::encode(std::span<const std::uint8_t> ids, std::uint32_t width,
                                             std::uint32_t height) {
    for (Reading& reading : readings_) {
        reading.lengths.clear();
        reading.end = reading.area = 0;
    }
    columns_.resize(ids.size());
    turn(ids, width, height, columns_.data());
    for (std::size_t begin = 0; begin < columns_.size();) {
        std::size_t end = begin + 1;
        while (end < columns_.size() && columns_[end] == columns_[begin]) ++end;
        add_run(columns_[begin], begin, end, height);
        begin = end;
    }
    masks_.clear();
    for (std::size_t id = 0; id < readings_.size(); ++id) {
        Reading& reading = readings_[id];
        if (reading.lengths.empty()) continue;
        if (reading.end < columns_.size())
            reading.lengths.push_back(static_cast<std::uint32_t>(columns_.size() - reading.end));
        masks_.push_back({.id = static_cast<std::uint8_t>(id),
                          .counts = compressed(reading.lengths),
                          .area = reading.area,
                          .left = reading.left,
                          .top = reading.top,
                          .width = reading.right - reading.left + 1,
                          .height = reading.bottom - reading.top + 1});
    }
    return masks_;
}

}  // namespace offramp
