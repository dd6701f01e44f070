#include "consumer/worker/run_consumer.hpp"

int main(int argc, char** argv) { return offramp::run_consumer(argc, argv, offramp::own_processors(nullptr)); }
