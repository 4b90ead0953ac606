// Package purity holds the line between the packages that compute and the
// packages that touch the world. A run can be replayed byte for byte only if
// everything between two returns is a function of them, so the pure packages
// (see [Packages]) may not look at a clock, a file, a socket, an environment or
// a random source, may not run things at once, and may not iterate in an order
// that differs between two executions.
//
// [Check] reads a package's own source. What it refuses:
//
//   - an import that is not on the package's list. The list is of direct
//     imports, because fmt imports os; it has no time, os, net, math/rand, sync,
//     log, reflect, runtime or unsafe. Imports within the project must follow
//     the layers drawn in ARCHITECTURE.md;
//   - ranging over a map, except in four forms whose outcome no order can change:
//     collecting the keys (or values) with one append, sorted by the very next
//     statement with slices.Sort, sort.Strings or sort.Ints; copying into another
//     map under the same key; deleting the key from another map; ranging without
//     variables. The iterators of package maps are maps ranged over in disguise:
//     only slices.Sorted(maps.Keys(m)) and slices.Sorted(maps.Values(m)) pass;
//   - go statements, channels in any form, select, iter.Pull;
//   - anything of package context but the type Context, and its methods: whether
//     a context is done depends on the clock;
//   - fmt.Print*, fmt.Scan*, print and println, and the verb %p;
//   - writing to a package-level variable, its elements or fields, taking its
//     address or calling a pointer method on it, and variables of function type;
//   - init functions, build constraints, go:linkname and other directives, files
//     in C or assembly.
//
// What it cannot see: a package-level map or slice that is changed through a
// local copy of its reference, and what the third-party packages on the lists
// do inside. Test files are not checked.
package purity
