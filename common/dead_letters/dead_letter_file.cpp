#include "common/dead_letters/dead_letter_file.hpp"

#include <array>

#include "common/base/remedy.hpp"
#include "common/base/way_to_write.hpp"
#include "common/base/whole_file.hpp"

namespace offramp {

void write_dead_letter_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
    std::size_t total = 0;
    for (const auto& piece : pieces) total += piece.size();
    WholeFile file(path, 0600, [&](int problem) {
        return SystemError("writing " + path + ", " + std::to_string(total) + " bytes", problem,
                           way_to_write(problem, "Make room there") + ", or " + remedy(Remedy::AnotherRunDirectory),
                           ErrorKind::CannotWrite);
    });
    for (const auto& piece : pieces) file.write(piece);
    file.flush();
    file.put_in_place();
    file.flush_name();
}

void write_dead_letter_file(const std::string& path, std::string_view text) {
    const std::array pieces{std::as_bytes(std::span(text))};
    write_dead_letter_file(path, pieces);
}

}  // namespace offramp
