# External dependencies. Debian's libraries by package or pkg-config; CUDA and LibTorch as imported targets on
# the files of a Python's wheels (or of a toolkit and a LibTorch of the user's own): the wheels carry no unversioned .so
# names, and find_package(Torch) insists on an nvcc and takes what it finds under /usr/local.

find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq>=4.3)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(TIFF REQUIRED IMPORTED_TARGET libtiff-4>=4.5)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
pkg_check_modules(WEBPDEMUX REQUIRED IMPORTED_TARGET libwebpdemux)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
find_path(OFFRAMP_XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(OFFRAMP_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)

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

find_path(offramp_nvtx_include nvtx3/nvToolsExt.h PATHS ${cuda_roots} PATH_SUFFIXES include NO_DEFAULT_PATH)
# NVTX is wanted without the rest of the toolkit's headers, so that common/ and consumer/ cannot see them.
add_library(offramp::nvtx INTERFACE IMPORTED)
if(offramp_nvtx_include)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/nvtx)
    file(CREATE_LINK ${offramp_nvtx_include}/nvtx3 ${CMAKE_BINARY_DIR}/nvtx/nvtx3 SYMBOLIC)
    set_target_properties(offramp::nvtx PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/nvtx
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/nvtx INTERFACE_LINK_LIBRARIES ${CMAKE_DL_LIBS})
else()
    message(FATAL_ERROR "No NVTX headers (nvtx3/nvToolsExt.h) under '${cuda_roots}'.")
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
