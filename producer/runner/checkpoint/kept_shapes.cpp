#include "producer/runner/checkpoint/kept_shapes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/json/json_text.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"

namespace offramp {
namespace {

using nlohmann::json;

// Errors: json::exception.
SampleForm form_in(const json& kept) {
    return {.shape = kept.at("shape").get<std::vector<std::int64_t>>(),
            .is_picture = kept.at("picture").get<bool>(),
            .has_pixels = kept.at("pixels").get<bool>()};
}

// Returns false if the line is invalid.
bool add_line(const json& line, ItemShapes& shapes, std::vector<ItemShapes::Shape>& kept) {
    if (!line.is_object() || !line.contains("form")) return add_shapes_line(line, kept);
    try {
        shapes.set_form(form_in(line["form"]));
        return true;
    } catch (const json::exception&) {
        return false;
    }
}

}  // namespace

void keep_shapes(const std::string& path, const ItemShapes& shapes) {
    std::vector<ItemShapes::Shape> all;
    for (std::uint64_t item = 0; item < shapes.items(); ++item) all.push_back(shapes.of(item));
    WholeFile file(path, 0600, [&](int problem) {
        return SystemError("writing " + path, problem, "Give the run a directory that this user may write to",
                           ErrorKind::CannotWrite);
    });
    const SampleForm& form = shapes.form();
    const json kept = {{"shape", form.shape}, {"picture", form.is_picture}, {"pixels", form.has_pixels}};
    file.write(sealed_line("\"form\":" + json_text(kept) + "}"));
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
