#pragma once

#include <exception>
#include <string>

namespace offramp {

// The text of another thread's exception, for a status page or a log. `error` is not null.
std::string exception_text(const std::exception_ptr& error);

}  // namespace offramp
