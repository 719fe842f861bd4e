# Flags of every object we build. -ffp-contract=off is a correctness flag: the bits of the results
# are part of the contract (docs/NUMERICS.md), and gcc and clang differ in their defaults.
add_library(redelta_flags INTERFACE)
target_compile_features(redelta_flags INTERFACE c_std_17)
target_compile_options(redelta_flags INTERFACE -ffp-contract=off)

option(REDELTA_WARNINGS "Compile with the project's warnings, as errors" OFF)
if(REDELTA_WARNINGS)
  target_compile_options(redelta_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla
    -Wcast-align -Werror)
  # Fields of the interface are int32_t where variables are enumerations. gcc lets the two meet and
  # checks the signs of all else; clang has one switch for both.
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    target_compile_options(redelta_flags INTERFACE -Wno-sign-conversion)
  endif()
endif()

set(REDELTA_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined or thread")
if(REDELTA_SANITIZE)
  target_compile_options(redelta_flags INTERFACE -fsanitize=${REDELTA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g)
  target_link_options(redelta_flags INTERFACE -fsanitize=${REDELTA_SANITIZE})
endif()
