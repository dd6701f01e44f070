#include "producer/runner/checkpoint/kept_shapes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"

namespace offramp {
namespace {

// Returns false if the line is invalid.
bool add_line(const nlohmann::json& line, ItemShapes& shapes, std::vector<ItemShapes::Shape>& kept) {
    std::optional<SampleForm> form = form_in(line);
    if (!form) return add_shapes_line(line, kept);
    shapes.set_form(*std::move(form));
    return true;
}

}  // namespace

void keep_shapes(const std::string& path, const ItemShapes& shapes) {
    std::vector<ItemShapes::Shape> all;
    for (std::uint64_t item = 0; item < shapes.items(); ++item) all.push_back(shapes.of(item));
    WholeFile file(path, 0600, [&](int problem) {
        return SystemError("writing " + path, problem, "Give the run a directory that this user may write to",
                           ErrorKind::CannotWrite);
    });
    file.write(form_line(shapes.form()));
    file.write(shapes_lines(all));
    file.put_in_place();
}

bool add_kept_shapes(const std::string& path, std::uint64_t items, ItemShapes& shapes) {
    const std::optional<std::string> text = text_of_own_file(path, "the shapes of the run's items");
    if (!text) return false;
    std::vector<ItemShapes::Shape> kept;
    for (std::string_view left = *text; !left.empty();) {
        const std::string_view line = left.substr(0, left.find('\n'));
        left.remove_prefix(std::min(line.size() + 1, left.size()));
        if (!add_line(opened_line(line), shapes, kept))
            throw ProtocolError(path + " is damaged", "Start the run again, with --resume");
    }
    if (kept.size() != items)
        throw ConfigError("the input differs from that of the run to take over: " + std::to_string(items) +
                              " items, there were " + std::to_string(kept.size()),
                          "Put the input back as it was, or start another run");
    for (const ItemShapes::Shape& shape : kept)
        shape.empty() ? shapes.add_unreadable("unreadable when the run began") : shapes.add(shape);
    return true;
}

}  // namespace offramp
