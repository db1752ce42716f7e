// Package bench measures the product on test/bed: what configuring simulated machines costs in time, connections, bytes, processor time,
// memory and writes to the API, beside what the incumbent cost on the same kind of bed. docs/performance.md explains each column.
//
// It may import everything below test. What it does not prove: how fast Windows, its SSH server and a network are. The machines, the control
// plane and the operator share one computer, and what the machines do (unpacking, hashing) is part of the wall time.
package bench
