#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace offramp::test {

// A file as numpy.save() writes it.
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& numbers,
                       const std::string& order = "False") {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() & 0xff);
    file += static_cast<char>(header.size() >> 8);
    return file + header + numbers;
}

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

inline std::vector<float> counting(std::size_t count, float from = 0) {
    std::vector<float> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = from + static_cast<float>(i);
    return all;
}

}  // namespace offramp::test
