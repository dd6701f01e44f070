#include "common/app/program/end_signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>

#include "common/base/error.hpp"

namespace offramp {

EndSignals::EndSignals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (const int number : {SIGPIPE, SIGXFSZ}) ::sigaction(number, &ignore, nullptr);

    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    if (const int problem = ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr); problem != 0)
        throw SystemError("blocking SIGTERM and SIGINT", problem);
    fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) throw SystemError("signalfd for SIGTERM and SIGINT", errno);
}

}  // namespace offramp
