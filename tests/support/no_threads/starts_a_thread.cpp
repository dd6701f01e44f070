// The twin of no_threads: a program without the mark that starts a thread.
#include <thread>

int main() {
    std::thread([] {}).join();
    return 0;
}
