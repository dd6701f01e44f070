#include "common/app/images/whole_jpeg.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "common/app/images/image_format.hpp"

namespace offramp {
namespace {

constexpr unsigned kBlockCoefficients = 64;
constexpr int kLargestAverage = 2047;     // of 8-bit pixels; decoders limit others in different ways
constexpr unsigned kMostBitsAtOnce = 32;  // more than a code and its number, or an entry's symbols
constexpr unsigned kMostCodeBits = 16;
constexpr unsigned kSixteenZeros = 0xf0;  // the only run without a number behind it
// More than the codes of one unit take: bits beyond the data are read as zeros, and found out after the unit.
constexpr std::size_t kZerosBehind = 1536;

unsigned byte_at(std::span<const std::byte> bytes, std::size_t at) { return std::to_integer<unsigned>(bytes[at]); }

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

std::uint64_t divided_up(std::uint64_t number, std::uint64_t by) { return (number + by - 1) / by; }

}  // namespace

// Reads bits from the front of bytes that have kZerosBehind further ones.
struct WholeJpegCheck::Bits {
    const std::uint8_t* next;
    std::uint64_t buffer = 0;  // the next bits, from the highest
    unsigned held = 0;

    // Afterwards at least 56 bits are held.
    void fill() {
        std::uint64_t bytes;
        std::memcpy(&bytes, next, sizeof bytes);
        if constexpr (std::endian::native == std::endian::little) bytes = __builtin_bswap64(bytes);
        buffer |= bytes >> held;
        const unsigned taken = (63 - held) >> 3U;
        next += taken;
        held += taken * 8;
    }
    std::uint32_t front(unsigned bits) const { return static_cast<std::uint32_t>(buffer >> (64 - bits)); }
    void skip(unsigned bits) {
        buffer <<= bits;
        held -= bits;
    }
    // Takes a signed number: a first bit of 0 means that it is negative.
    int number(unsigned bits) {
        if (bits == 0) return 0;
        const auto value = static_cast<int>(front(bits));
        skip(bits);
        return value < (1 << (bits - 1)) ? value - (1 << bits) + 1 : value;
    }
    std::uint64_t position(const std::uint8_t* begin) const {
        return static_cast<std::uint64_t>(next - begin) * 8 - held;
    }
};

bool WholeJpegCheck::Code::define(std::span<const std::byte> table, bool is_dc) {
    if (std::ranges::equal(table, definition)) return true;  // like the picture before
    definition.clear();
    std::ranges::fill(entries, Entry{});
    std::vector<std::uint8_t> code_bits(std::size(entries));
    std::uint32_t code = 0;
    std::size_t symbol = 0;
    for (unsigned length = 1; length <= kMostCodeBits; ++length, code <<= 1U) {
        const unsigned count = byte_at(table, length - 1);
        first_symbol[length] = static_cast<std::int32_t>(symbol) - static_cast<std::int32_t>(code);
        // The code of ones alone is not used.
        if (count > 0 && code + count >= (1U << length)) return false;
        for (unsigned i = 0; i < count; ++i, ++code, ++symbol) {
            const unsigned value = byte_at(table, kMostCodeBits + symbol);
            const unsigned number_bits = is_dc ? value : value & 15U;
            if (number_bits > (is_dc ? 11U : 10U)) return false;
            symbols[symbol] = static_cast<std::uint8_t>(value);
            const bool is_run_alone = !is_dc && number_bits == 0 && value != 0 && value != kSixteenZeros;
            if (length > kLookupBits || is_run_alone) continue;
            Entry entry{.first_bits = static_cast<std::uint8_t>(length + number_bits)};
            entry.first_advance = static_cast<std::uint8_t>(number_bits);
            if (!is_dc) entry.first_advance = value == 0 ? kEndsBlock : static_cast<std::uint8_t>((value >> 4U) + 1);
            const std::size_t first = code << (kLookupBits - length);
            std::fill_n(entries + first, 1U << (kLookupBits - length), entry);
            std::fill_n(code_bits.begin() + static_cast<std::ptrdiff_t>(first), 1U << (kLookupBits - length),
                        static_cast<std::uint8_t>(length));
        }
        end[length] = code << (kMostCodeBits - length);
    }
    if (!is_dc) combine(code_bits);
    definition.assign(table.begin(), table.end());
    return true;
}

void WholeJpegCheck::Code::combine(std::span<const std::uint8_t> code_bits) {
    for (std::size_t bits = 0; bits < std::size(entries); ++bits) {
        Entry& entry = entries[bits];
        entry.bits = entry.first_bits;
        entry.advance = entry.first_advance;
        while (entry.bits > 0 && entry.bits < kLookupBits && entry.advance < kEndsBlock) {
            const std::size_t rest = (bits << entry.bits) & (std::size(entries) - 1);
            const Entry& next = entries[rest];
            // the code must end within the bits that are known
            if (next.first_bits == 0 || entry.bits + code_bits[rest] > kLookupBits) break;
            if (entry.advance + (next.first_advance & ~unsigned{kEndsBlock}) >= kBlockCoefficients) break;
            entry.bits = static_cast<std::uint8_t>(entry.bits + next.first_bits);
            entry.advance = static_cast<std::uint8_t>(entry.advance + next.first_advance);
        }
    }
}

int WholeJpegCheck::Code::find(std::uint32_t next, unsigned& length) const {
    for (length = 1; length <= kMostCodeBits; ++length)
        if (next < end[length])
            return symbols[first_symbol[length] + static_cast<std::int32_t>(next >> (kMostCodeBits - length))];
    return -1;
}

bool WholeJpegCheck::read_frame(std::span<const std::byte> segment) {
    if (!components_.empty() || segment.size() < 6 || byte_at(segment, 0) != 8) return false;
    size_ = {big_endian_at(segment, 3, 2), big_endian_at(segment, 1, 2)};
    const unsigned count = byte_at(segment, 5);
    const auto [shorter, longer] = std::minmax(size_.width, size_.height);
    if (shorter < accepted_.shortest_side || longer > accepted_.longest_side || size_.pixels() > accepted_.pixels)
        return false;
    if ((count != 1 && count != 3) || segment.size() != 6 + 3 * std::size_t{count}) return false;
    for (unsigned i = 0; i < count; ++i) {
        const std::size_t at = 6 + 3 * std::size_t{i};
        const unsigned sampling = byte_at(segment, at + 1);
        components_.push_back({.id = byte_at(segment, at),
                               .across = sampling >> 4U,
                               .down = sampling & 15U,
                               .quantization = byte_at(segment, at + 2)});
        if (components_.back().quantization > 3) return false;
    }
    // 4:4:4, 4:2:2, 4:2:0, or gray
    const Component& first = components_.front();
    if (first.across < 1 || first.across > 2 || first.down < 1 || first.down > first.across) return false;
    if (count == 1) return first.across == 1;
    return std::ranges::all_of(components_.begin() + 1, components_.end(),
                               [](const Component& each) { return each.across == 1 && each.down == 1; });
}

bool WholeJpegCheck::read_tables(std::span<const std::byte> segment) {
    while (!segment.empty()) {
        const unsigned place = byte_at(segment, 0);
        if (segment.size() < 17 || (place & 0xeeU) != 0) return false;
        std::size_t values = 0;
        for (std::size_t length = 0; length < kMostCodeBits; ++length) values += byte_at(segment, 1 + length);
        if (values > 256 || segment.size() < 17 + values) return false;
        const bool is_dc = place < 0x10;
        if (!(is_dc ? dc_ : ac_)[place & 1U].define(segment.subspan(1, 16 + values), is_dc)) return false;
        (is_dc ? dc_defined_ : ac_defined_)[place & 1U] = true;
        segment = segment.subspan(17 + values);
    }
    return true;
}

bool WholeJpegCheck::read_quantization(std::span<const std::byte> segment) {
    while (!segment.empty()) {
        const unsigned place = byte_at(segment, 0);
        if (place > 3 || segment.size() < 1 + kBlockCoefficients) return false;
        quantization_[place] = true;
        segment = segment.subspan(1 + kBlockCoefficients);
    }
    return true;
}

bool WholeJpegCheck::read_scan_header(std::span<const std::byte> segment) {
    const std::size_t count = components_.size();
    if (count == 0 || segment.size() != 4 + 2 * count || byte_at(segment, 0) != count) return false;
    for (std::size_t i = 0; i < count; ++i) {
        Component& component = components_[i];
        const unsigned tables = byte_at(segment, 2 + 2 * i);
        if (byte_at(segment, 1 + 2 * i) != component.id || (tables & 0xeeU) != 0) return false;
        component.dc = &dc_[tables >> 4U];
        component.ac = &ac_[tables & 1U];
        if (!dc_defined_[tables >> 4U] || !ac_defined_[tables & 1U] || !quantization_[component.quantization])
            return false;
    }
    const std::size_t at = 1 + 2 * count;
    return byte_at(segment, at) == 0 && byte_at(segment, at + 1) == 63 && byte_at(segment, at + 2) == 0;
}

// True if all decoders take the colours for gray or YCbCr.
bool WholeJpegCheck::is_known_colour() const {
    if (components_.size() == 1) return true;
    const unsigned first = components_[0].id;
    if (first > 1 || components_[1].id != first + 1 || components_[2].id != first + 2) return false;
    return adobe_ == 1 || (adobe_ == -1 && (jfif_ || first == 1));
}

std::optional<WholeJpegCheck::Picture> WholeJpegCheck::operator()(std::span<const std::byte> file) {
    components_.clear();
    std::ranges::fill(dc_defined_, false);
    std::ranges::fill(ac_defined_, false);
    std::ranges::fill(quantization_, false);
    restart_interval_ = 0;
    jfif_ = false;
    adobe_ = -1;
    if (file.size() < 4 || byte_at(file, 0) != 0xff || byte_at(file, 1) != 0xd8) return std::nullopt;
    for (std::size_t at = 2; at + 4 <= file.size();) {
        const unsigned type = byte_at(file, at + 1);
        const std::size_t length = big_endian_at(file, at + 2, 2);
        if (byte_at(file, at) != 0xff || length < 2 || length > file.size() - at - 2) return std::nullopt;
        const std::span<const std::byte> segment = file.subspan(at + 4, length - 2);
        at += 2 + length;
        bool good = true;
        if (type == 0xc0) {
            good = read_frame(segment);
        } else if (type == 0xc4) {
            good = read_tables(segment);
        } else if (type == 0xdb) {
            good = read_quantization(segment);
        } else if (type == 0xdd) {
            good = segment.size() == 2;
            if (good) restart_interval_ = big_endian_at(segment, 0, 2);
        } else if (type == 0xda) {
            if (!read_scan_header(segment) || !is_known_colour()) return std::nullopt;
            const std::size_t end = end_of_scan(file.subspan(at));
            if (end == 0) return std::nullopt;
            return Picture{.size = size_, .bytes_to_end = at + end};
        } else if (type == 0xe0) {
            jfif_ = jfif_ || (segment.size() >= 14 && begins_with(segment, std::string_view("JFIF\0", 5)));
        } else if (type == 0xee) {
            if (begins_with(segment, "Adobe") && segment.size() >= 12) adobe_ = static_cast<int>(byte_at(segment, 11));
        } else {
            good = (type >= 0xe1 && type <= 0xef) || type == 0xfe;  // notes; others are not of the plain kind
        }
        if (!good) return std::nullopt;
    }
    return std::nullopt;
}

// The bytes of a scan's data with the end marker behind it; 0 if any of it is damaged.
std::size_t WholeJpegCheck::end_of_scan(std::span<const std::byte> data) {
    const Component& first = components_.front();
    const std::uint64_t units = divided_up(size_.width, 8 * first.across) * divided_up(size_.height, 8 * first.down);
    const std::uint64_t interval = restart_interval_ == 0 ? units : restart_interval_;
    if (plain_.size() < data.size() + kZerosBehind) plain_.resize(data.size() + kZerosBehind);
    std::uint64_t done = 0;
    unsigned restarts = 0;
    plain_bytes_ = 0;
    for (std::size_t at = 0; at + 1 < data.size();) {
        const void* const marker = std::memchr(data.data() + at, 0xff, data.size() - 1 - at);
        if (marker == nullptr) return 0;
        const auto found = static_cast<std::size_t>(static_cast<const std::byte*>(marker) - data.data());
        const unsigned type = byte_at(data, found + 1);
        const std::size_t taken = found - at + (type == 0 ? 1 : 0);
        std::memcpy(plain_.data() + plain_bytes_, data.data() + at, taken);
        plain_bytes_ += taken;
        at = found + 2;
        if (type == 0) continue;
        const bool is_last = units - done <= interval;
        if (type != (is_last ? 0xd9 : 0xd0 + restarts % 8)) return 0;
        const std::uint64_t some = std::min(interval, units - done);
        if (!read_blocks(some)) return 0;
        if (is_last) return at;
        done += some;
        ++restarts;
        plain_bytes_ = 0;
    }
    return 0;
}

// Reads the codes of some units. True if these are all the codes there are.
bool WholeJpegCheck::read_blocks(std::uint64_t units) {
    std::memset(plain_.data() + plain_bytes_, 0, kZerosBehind);
    Bits bits{.next = plain_.data()};
    const std::uint64_t all_bits = std::uint64_t{plain_bytes_} * 8;
    unsigned length = 0;  // of a code without an entry
    for (Component& component : components_) component.average = 0;
    for (std::uint64_t unit = 0; unit < units; ++unit) {
        for (Component& component : components_) {
            const unsigned blocks = component.across * component.down;
            const Code::Entry* const ac = component.ac->entries;
            for (unsigned block = 0; block < blocks; ++block) {
                if (bits.held < kMostBitsAtOnce) bits.fill();
                const Code::Entry difference = component.dc->entries[bits.front(Code::kLookupBits)];
                unsigned number_bits = difference.first_advance;
                if (difference.first_bits != 0) {
                    bits.skip(difference.first_bits - number_bits);
                } else {
                    const int symbol = component.dc->find(bits.front(kMostCodeBits), length);
                    if (symbol < 0) return false;
                    bits.skip(length);
                    number_bits = static_cast<unsigned>(symbol);
                }
                component.average += bits.number(number_bits);
                if (component.average < -kLargestAverage || component.average > kLargestAverage) return false;
                for (unsigned coefficient = 1; coefficient < kBlockCoefficients;) {
                    if (bits.held < kMostBitsAtOnce) bits.fill();
                    const Code::Entry entry = ac[bits.front(Code::kLookupBits)];
                    const unsigned behind = coefficient + (entry.advance & ~unsigned{Code::kEndsBlock});
                    if (entry.first_bits != 0 && behind < kBlockCoefficients) [[likely]] {
                        bits.skip(entry.bits);
                        coefficient = behind;
                        if (entry.advance >= Code::kEndsBlock) break;
                    } else if (entry.first_bits != 0) {  // the block ends within the symbols of the entry
                        bits.skip(entry.first_bits);
                        if (entry.first_advance == Code::kEndsBlock) break;
                        coefficient += entry.first_advance;
                    } else {
                        const int symbol = component.ac->find(bits.front(kMostCodeBits), length);
                        if (symbol < 0) return false;
                        bits.skip(length + (static_cast<unsigned>(symbol) & 15U));
                        if (symbol == 0) break;
                        if ((symbol & 15) == 0 && symbol != static_cast<int>(kSixteenZeros)) return false;
                        coefficient += (static_cast<unsigned>(symbol) >> 4U) + 1;
                    }
                    if (coefficient > kBlockCoefficients) return false;
                }
            }
        }
        if (bits.position(plain_.data()) > all_bits) return false;
    }
    return all_bits - bits.position(plain_.data()) < 8;
}

}  // namespace offramp
