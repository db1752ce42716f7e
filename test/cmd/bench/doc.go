// Command bench measures what configuring simulated machines costs, and prints one line of JSON and tables; docs/performance.md explains them.
//
//	bench [--quick] [--only reactions|real|crowd|idle]
package main
