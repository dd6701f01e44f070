# The compiler and external dependencies. Debian's libraries by package or pkg-config; CUDA and LibTorch as imported targets on
# the files of a Python's wheels (or of a toolkit and a LibTorch of the user's own): the wheels carry no unversioned .so
# names, and find_package(Torch) insists on an nvcc and takes what it finds under /usr/local.

# offramp_need(PACKAGE RESULT): a search whose failure is reported at the end, with Debian's package for it.
set(missing_packages "")
macro(offramp_need package result)
    if(NOT ${result})
        list(APPEND missing_packages ${package})
    endif()
endmacro()
macro(offramp_need_module package name module)
    if(PkgConfig_FOUND)
        pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
    endif()
    offramp_need(${package} ${name}_FOUND)
endmacro()

# Without a compiler CMake can search nothing, and all packages are reported.
find_program(OFFRAMP_COMPILER NAMES $ENV{CXX} c++ g++ clang++ PATHS ENV PATH NO_DEFAULT_PATH)
if(CMAKE_CXX_COMPILER OR OFFRAMP_COMPILER)
    enable_language(CXX)
    find_package(Threads REQUIRED)
    find_package(Boost 1.74 QUIET)
    find_package(PkgConfig QUIET)
    find_package(spdlog QUIET)
    find_package(CLI11 QUIET)
    find_package(nlohmann_json QUIET)
    find_path(OFFRAMP_CPPZMQ_INCLUDE zmq.hpp)
    find_path(OFFRAMP_XXHASH_INCLUDE xxhash.h)
    find_path(OFFRAMP_TOMLPLUSPLUS_INCLUDE toml++/toml.h)
else()
    list(APPEND missing_packages g++)
endif()
offramp_need(pkg-config PkgConfig_FOUND)
offramp_need(libboost-dev Boost_FOUND)
offramp_need(libspdlog-dev spdlog_FOUND)
offramp_need(libcli11-dev CLI11_FOUND)
offramp_need(nlohmann-json3-dev nlohmann_json_FOUND)
offramp_need(cppzmq-dev OFFRAMP_CPPZMQ_INCLUDE)
offramp_need(libxxhash-dev OFFRAMP_XXHASH_INCLUDE)
offramp_need(libtomlplusplus-dev OFFRAMP_TOMLPLUSPLUS_INCLUDE)
offramp_need_module(libzmq3-dev ZMQ libzmq>=4.3)
offramp_need_module(libturbojpeg0-dev TURBOJPEG libturbojpeg)
offramp_need_module(libjpeg-dev JPEG libjpeg)
offramp_need_module(libpng-dev PNG libpng)
offramp_need_module(libtiff-dev TIFF libtiff-4>=4.5)
offramp_need_module(libwebp-dev WEBP libwebp)
offramp_need_module(libwebp-dev WEBPDEMUX libwebpdemux)
offramp_need_module(libisal-dev ISAL libisal)
offramp_need_module(libsqlite3-dev SQLITE sqlite3)
offramp_need_module(libpq-dev LIBPQ libpq)
offramp_need_module(libcurl4-openssl-dev CURL libcurl>=7.85)
if(missing_packages)
    list(REMOVE_DUPLICATES missing_packages)
    list(JOIN missing_packages " " missing_packages)
    message(FATAL_ERROR "A C++ compiler or libraries are missing. On Debian 12 or later, run as root:\n"
        "    apt-get install -y --no-install-recommends ${missing_packages}\n"
        "On another system, install packages with the same contents.")
endif()

set(offramp_site "")
if(OFFRAMP_PYTHON)
    execute_process(COMMAND ${OFFRAMP_PYTHON} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
                    OUTPUT_VARIABLE offramp_site OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()

# --- CUDA -----------------------------------------------------------------------------------------------------------
# Offered as the targets offramp::cudart and offramp::nvtx (header only, harmless without CUDA), and OFFRAMP_NVCC.
set(cuda_roots ${OFFRAMP_CUDA_DIR} ${offramp_site}/nvidia/cu13)
if(OFFRAMP_CUDA)
    find_path(offramp_cuda_include cuda_runtime_api.h PATHS ${cuda_roots} PATH_SUFFIXES include NO_DEFAULT_PATH)
    find_file(offramp_cudart NAMES libcudart.so.13 libcudart.so.12 libcudart.so PATHS ${cuda_roots}
              PATH_SUFFIXES lib lib64 targets/x86_64-linux/lib NO_DEFAULT_PATH)
    find_program(OFFRAMP_NVCC nvcc PATHS ${cuda_roots} PATH_SUFFIXES bin NO_DEFAULT_PATH)
    if(NOT offramp_cuda_include OR NOT offramp_cudart OR NOT OFFRAMP_NVCC)
        message(FATAL_ERROR "No CUDA Toolkit (headers, libcudart, nvcc) under '${cuda_roots}'. Give -DOFFRAMP_PYTHON= the "
            "Python of build/venv (./launch/offramp setup makes it), -DOFFRAMP_CUDA_DIR= your own toolkit, or -DOFFRAMP_CUDA=OFF.")
    endif()
    add_library(offramp::cudart SHARED IMPORTED)
    set_target_properties(offramp::cudart PROPERTIES IMPORTED_LOCATION ${offramp_cudart}
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${offramp_cuda_include} INTERFACE_INCLUDE_DIRECTORIES ${offramp_cuda_include})
endif()

# pip's build environment, which has the package nvidia-nvtx, is in CMAKE_PREFIX_PATH.
find_path(offramp_nvtx_include nvtx3/nvToolsExt.h HINTS ${cuda_roots} PATH_SUFFIXES include nvidia/cu13/include)
# NVTX is wanted without the rest of the toolkit's headers, so that common/ and consumer/ cannot see them.
add_library(offramp::nvtx INTERFACE IMPORTED)
if(offramp_nvtx_include)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/nvtx)
    file(CREATE_LINK ${offramp_nvtx_include}/nvtx3 ${CMAKE_BINARY_DIR}/nvtx/nvtx3 SYMBOLIC)
    set_target_properties(offramp::nvtx PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/nvtx
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/nvtx INTERFACE_LINK_LIBRARIES ${CMAKE_DL_LIBS})
else()
    message(FATAL_ERROR "No NVTX headers (nvtx3/nvToolsExt.h) under '${cuda_roots}'. Give -DOFFRAMP_PYTHON= a Python with the package "
        "nvidia-nvtx, or -DOFFRAMP_CUDA_DIR= your own toolkit.")
endif()

# --- Arrow ----------------------------------------------------------------------------------------------------------
# Optional. Debian 12 has none; the Python package pyarrow brings libraries and headers, built with the C++ ABI of g++ 5 and later. Offered as
# offramp::parquet, for the modules of consumer/sinks/parquet and common/app/texts alone. Searched anew each time: the libraries' names end in their version.
if(offramp_site AND OFFRAMP_SANITIZER STREQUAL "")   # which Arrow was not built for
    file(GLOB arrow_libraries ${offramp_site}/pyarrow/libarrow.so.* ${offramp_site}/pyarrow/libparquet.so.*)
    list(LENGTH arrow_libraries arrow_library_count)
    set(arrow_version 0)
    if(EXISTS ${offramp_site}/pyarrow/include/arrow/util/config.h)
        file(STRINGS ${offramp_site}/pyarrow/include/arrow/util/config.h arrow_version REGEX "define ARROW_VERSION_MAJOR")
        string(REGEX MATCH "[0-9]+" arrow_version "${arrow_version}")
    endif()
    if(arrow_library_count EQUAL 2 AND arrow_version GREATER_EQUAL 19 AND EXISTS ${offramp_site}/pyarrow/include/parquet/arrow/writer.h)
        add_library(offramp::parquet INTERFACE IMPORTED)
        set_target_properties(offramp::parquet PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${offramp_site}/pyarrow/include
            INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${offramp_site}/pyarrow/include INTERFACE_LINK_LIBRARIES "${arrow_libraries}")
    else()
        message(STATUS "No pyarrow of version 19 or later in '${offramp_site}': --processor embeddings-parquet and --source parquet-text will not be built. "
                       "Fix: ${OFFRAMP_PYTHON} -m pip install 'pyarrow>=19'")
    endif()
endif()

# --- LibTorch -------------------------------------------------------------------------------------------------------
# Offered as offramp::torch; only producer/runner/models may link it.
if(OFFRAMP_MODELS)
    find_path(offramp_torch_root include/torch/csrc/api/include/torch/torch.h PATHS ${OFFRAMP_TORCH_DIR} ${offramp_site}/torch
              NO_DEFAULT_PATH)
    if(NOT offramp_torch_root)
        message(FATAL_ERROR "No LibTorch under '${OFFRAMP_TORCH_DIR}' or '${offramp_site}/torch'. Give -DOFFRAMP_PYTHON= a Python "
            "with PyTorch 2.7 or later, -DOFFRAMP_TORCH_DIR= an unpacked LibTorch, or -DOFFRAMP_MODELS=OFF.")
    endif()
    add_library(offramp::torch INTERFACE IMPORTED)
    set(torch_includes ${offramp_torch_root}/include ${offramp_torch_root}/include/torch/csrc/api/include)
    set(torch_libraries ${offramp_torch_root}/lib/libtorch.so ${offramp_torch_root}/lib/libtorch_cpu.so
        ${offramp_torch_root}/lib/libc10.so)
    if(OFFRAMP_CUDA AND EXISTS ${offramp_torch_root}/lib/libtorch_cuda.so)
        list(APPEND torch_includes ${offramp_cuda_include})
        list(APPEND torch_libraries -Wl,--no-as-needed ${offramp_torch_root}/lib/libtorch_cuda.so -Wl,--as-needed
            ${offramp_torch_root}/lib/libc10_cuda.so ${offramp_cudart})
        target_compile_definitions(offramp::torch INTERFACE OFFRAMP_TORCH_HAS_CUDA=1)
    endif()
    # The libraries that LibTorch itself needs (cuBLAS, cuDNN, ...) are found through its own RPATH.
    target_link_options(offramp::torch INTERFACE -Wl,--allow-shlib-undefined)
    set_target_properties(offramp::torch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${torch_includes}"
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${torch_includes}" INTERFACE_LINK_LIBRARIES "${torch_libraries}")
endif()
