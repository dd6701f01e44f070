#pragma once

#include <string>

#include "common/app/images/picture_list.hpp"
#include "common/app/texts/text_table.hpp"

namespace offramp {

// Which rows a producer has listed is kept in its run's directory: consumers list the same input for themselves, and
// what they say of a sample must be of the text, or the picture, that it was made of.

// Before the run is open to consumers. `path`: run_files::kListedRows. `readable_by_group`: consumers of another user
// are let in. Errors: SystemError (CannotWrite).
void keep_listed_rows(const std::string& path, const TextTable& texts, bool readable_by_group);
void keep_listed_rows(const std::string& path, const PictureList& pictures, bool readable_by_group);

// A run that has kept none, such as a custom program's, requires nothing. Rows may have been
// added at the end. Errors: Error (BadInput) when the rows are not those that were kept, ProtocolError when these
// cannot be read: neither is mended by trying again.
void require_listed_rows(const std::string& path, const TextTable& texts);
void require_listed_rows(const std::string& path, const PictureList& pictures);

}  // namespace offramp
