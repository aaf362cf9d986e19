# Tests the Go module with cgo, without a proxy.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
set(ENV{CGO_ENABLED} 1)
set(ENV{CGO_CFLAGS} "-I${INCLUDE} -Wall -Werror")
set(ENV{CGO_LDFLAGS} "-L${LIBRARY_DIR}")
set(ENV{GOFLAGS} -mod=mod)
set(ENV{GOPROXY} off)
set(ENV{GOCACHE} ${WORK}/go-cache)
run(${SOURCE} ${TOOL} test -count=1 -v .)
