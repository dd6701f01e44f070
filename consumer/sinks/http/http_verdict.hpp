#pragma once

namespace offramp {

// The meaning of an answer's status.
enum class HttpVerdict {
    Done,        // 2xx
    TryAgain,    // 408, 425, 429, 5xx: the server is busy or ill
    NotThisOne,  // it refuses this body: any other 4xx
    // it would refuse every body: the address, the method, the type or the right to send is wrong; and redirects, which
    // are not followed
    NothingEver,
};

HttpVerdict verdict_of(long status);

}  // namespace offramp
