#pragma once

#include <exception>
#include <string>

namespace offramp {

// What an exception that another thread met says of itself, for a status page or a log. `error` is not null.
std::string exception_text(const std::exception_ptr& error);

}  // namespace offramp
