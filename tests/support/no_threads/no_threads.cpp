// Linked into test programs that are not marked THREADS: starting a thread there, even in a library, calls this
// function instead of the C library's. So ThreadSanitizer omits only programs without threads.
#include <pthread.h>
#include <unistd.h>

extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) {
    constexpr char kText[] =
        "this test program starts a thread and is not marked THREADS: ThreadSanitizer would leave it out. Write "
        "THREADS "
        "in its offramp_test()\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
    ::_exit(3);
}
