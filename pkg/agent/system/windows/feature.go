package windows

// DismPackageFeatureState ("DismPackageFeatureState Enumeration").
const (
	dismInstalled      = 4
	dismInstallPending = 5
)

// HRESULTs of the DISM API: DismEnableFeature answers with the Win32 number of ERROR_SUCCESS_REBOOT_REQUIRED when it has
// done its work and Windows must restart.
const (
	dismOK             = 0
	dismReloadSession  = 1 // DISMAPI_S_RELOAD_IMAGE_SESSION_REQUIRED
	dismRebootRequired = 3010
)

// featureState reads a state. A feature that is partly installed (7), or whose removal waits for a reboot (1), is not
// enabled, so that it is enabled again.
func featureState(state uint32) (enabled, pending bool) {
	return state == dismInstalled, state == dismInstallPending
}

// enableOutcome reads the answer of DismEnableFeature.
func enableOutcome(hresult uint32) (reboot, ok bool) {
	switch hresult {
	case dismOK, dismReloadSession:
		return false, true
	case dismRebootRequired:
		return true, true
	}
	return false, false
}
