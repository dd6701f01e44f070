// The twin of no_threads: a program that is not marked, and starts a thread.
#include <thread>

int main() {
    std::thread([] {}).join();
    return 0;
}
