package windows

import "fmt"

// bootID names a boot by its time in units of 100 ns. Windows moves BootTime along when somebody sets the clock, and counts
// the sum of such moves in BootTimeBias (SYSTEM_TIMEOFDAY_INFORMATION); without them the value stays the same from
// boot to boot, however the clock is corrected. The registry's PrefetchParameters\BootId, a counter, would do as well, but
// is absent where the prefetcher is off, and a clone of a machine shares it.
func bootID(bootTime, bias int64) string { return fmt.Sprintf("%016x", uint64(bootTime-bias)) }
