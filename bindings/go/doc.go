// Package sinter fuses chains of GPU operators on NVIDIA Hopper at run time, by the fastest plan that its cost model finds,
// through libsinter: describe a chain with a Builder or parse one, Open a Context, Prepare a Plan, Bind it to buffers, Launch.
// sinter/sinter.h states ownership, units and errors.
//
// CGO_CFLAGS and CGO_LDFLAGS name the folders of the header and the library.
package sinter
