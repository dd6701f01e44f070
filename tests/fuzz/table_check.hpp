#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/app/images/unreadable_item.hpp"
#include "common/app/texts/text_table.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {

// Opens a table of texts from arbitrary bytes: it is refused with its own error, or each row keeps TextTable's
// promises.
template <class Open>
void check_table(const Open& open) {
    std::unique_ptr<TextTable> table;
    try {
        table = open();
    } catch (const ConfigError& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
        return;
    }
    expect(table->size() > 0, "a table has rows");
    for (std::uint64_t row = 0; row < table->size(); ++row) {
        expect(!table->key(row).empty() && !table->origin(row).empty(), "a row has a key and an origin");
        try {
            const BesideText beside = table->beside(row);
            const std::string& columns = beside.columns;
            expect(!beside.id.empty(), "a row has the id that its key was made of");
            expect(columns.front() == '{' && columns.back() == '}' && columns.find('\n') == std::string::npos,
                   "columns are one object on one line");
            const std::string text = table->text(row);
            expect(is_utf8(text) && text.size() <= TextTable::kLongestText,
                   "a text is UTF-8, and no longer than it may");
        } catch (const UnreadableItem& unreadable) {
            // The file does not change after listing, so only too long texts are unreadable.
            expect(std::string_view(unreadable.what()).find("longer than") != std::string_view::npos,
                   "a row that was listed can be read again");
        }
    }
}

}  // namespace offramp
