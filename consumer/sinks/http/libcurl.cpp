#include "consumer/sinks/http/libcurl.hpp"

#include "consumer/sinks/opened_library.hpp"

namespace offramp {
namespace {

Libcurl opened() {
    const OpenedLibrary library({"libcurl.so.4", "libcurl-gnutls.so.4"}, "--processor http",
                                "Install libcurl 7.85 or later: apt-get install libcurl4, dnf install libcurl");
    Libcurl calls{};
    library.find(calls.global_init, "curl_global_init");
    library.find(calls.easy_init, "curl_easy_init");
    library.find(calls.easy_cleanup, "curl_easy_cleanup");
    library.find(calls.easy_setopt, "curl_easy_setopt");
    library.find(calls.easy_getinfo, "curl_easy_getinfo");
    library.find(calls.easy_perform, "curl_easy_perform");
    library.find(calls.easy_strerror, "curl_easy_strerror");
    library.find(calls.slist_append, "curl_slist_append");
    library.find(calls.slist_free_all, "curl_slist_free_all");
    return calls;
}

}  // namespace

const Libcurl& libcurl() {
    static const Libcurl calls = opened();
    return calls;
}

}  // namespace offramp
