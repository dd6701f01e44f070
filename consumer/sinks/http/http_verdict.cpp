#include "consumer/sinks/http/http_verdict.hpp"

namespace offramp {

HttpVerdict verdict_of(long status) {
    if (status >= 200 && status < 300) return HttpVerdict::Done;
    if (status >= 500) return HttpVerdict::TryAgain;
    switch (status) {
        case 408:  // Request Timeout
        case 425:  // Too Early
        case 429:  // Too Many Requests
            return HttpVerdict::TryAgain;
        case 401:  // Unauthorized
        case 402:  // Payment Required
        case 403:  // Forbidden
        case 404:  // Not Found
        case 405:  // Method Not Allowed
        case 406:  // Not Acceptable
        case 407:  // Proxy Authentication Required
        case 410:  // Gone
        case 411:  // Length Required
        case 415:  // Unsupported Media Type
        case 421:  // Misdirected Request
        case 426:  // Upgrade Required
        case 431:  // Request Header Fields Too Large
            return HttpVerdict::NothingEver;
        default:
            return status >= 400 ? HttpVerdict::NotThisOne : HttpVerdict::NothingEver;
    }
}

}  // namespace offramp
