#pragma once

#include <cstdio>
#include <string>

namespace offramp::test {

// A header block with its checksum, as GNU tar and POSIX write it.
struct TarHeader {
    std::string name;
    std::size_t bytes = 0;
    char type = '0';
    std::string prefix = {};
    std::string size_field = {};  // instead of the octal size
    std::string magic = std::string(
        "ustar\0"
        "00",
        8);
};

inline std::string tar_header(const TarHeader& header) {
    std::string block(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
    char octal[13];
    std::snprintf(octal, sizeof octal, "%011zo", header.bytes);
    put(0, header.name.substr(0, 100));
    put(100, "0000644");
    put(124, header.size_field.empty() ? std::string(octal) : header.size_field);
    put(136, "00000000000");
    put(148, "        ");
    block[156] = header.type;
    put(257, header.magic);
    put(345, header.prefix);
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    put(148, std::string(digits, 7) + " ");
    return block;
}

inline std::string tar_padded(std::string bytes) {
    bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
    return bytes;
}

inline std::string tar_member(const std::string& name, const std::string& bytes) {
    return tar_header({.name = name, .bytes = bytes.size()}) + tar_padded(bytes);
}

// A name too long for a header, as GNU tar writes it.
inline std::string gnu_member(const std::string& name, const std::string& bytes) {
    return tar_header({.name = "././@LongLink", .bytes = name.size() + 1, .type = 'L'}) + tar_padded(name + '\0') +
           tar_member(name.substr(0, 100), bytes);
}

inline std::string pax_record(const std::string& key, const std::string& value) {
    const std::string rest = " " + key + "=" + value + "\n";
    std::size_t length = rest.size() + 1;
    while (std::to_string(length).size() + rest.size() != length) ++length;
    return std::to_string(length) + rest;
}

inline std::string pax_member(const std::string& name, const std::string& bytes) {
    const std::string records =
        pax_record("mtime", "1.5") + pax_record("path", name) + pax_record("size", std::to_string(bytes.size()));
    return tar_header({.name = "PaxHeaders/x", .bytes = records.size(), .type = 'x'}) + tar_padded(records) +
           tar_header({.name = "short", .bytes = 0}) + tar_padded(bytes);
}

inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace offramp::test
