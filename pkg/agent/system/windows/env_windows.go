package windows

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// envKey is the machine-wide environment below HKEY_LOCAL_MACHINE ("Environment Variables", Win32).
const envKey = `SYSTEM\CurrentControlSet\Control\Session Manager\Environment`

// environment is the machine-wide environment in the registry.
type environment struct{ user32 *windows.LazyDLL }

// Get returns the value as it is stored: %names% in it are not expanded.
func (environment) Get(name string) (value string, ok bool, err error) {
	if err := checkEnvName(name); err != nil {
		return "", false, err
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, envKey, registry.QUERY_VALUE)
	if err != nil {
		return "", false, failed("open key of the machine environment", "", err)
	}
	defer func() { _ = key.Close() }()
	value, _, err = key.GetStringValue(name)
	if errors.Is(err, registry.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, failed("read variable", name, err)
	}
	return value, true, nil
}

func (e environment) Set(name, value string) error {
	if err := errors.Join(checkEnvName(name), checkEnvValue(name, value)); err != nil {
		return err
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, envKey, registry.QUERY_VALUE|registry.SET_VALUE)
	if err != nil {
		return failed("open key of the machine environment", "", err)
	}
	defer func() { _ = key.Close() }()
	_, existing, err := key.GetValue(name, nil)
	exists := err == nil || errors.Is(err, registry.ErrShortBuffer)
	if envKind(existing, exists) == regExpandString {
		err = key.SetExpandStringValue(name, value)
	} else {
		err = key.SetStringValue(name, value)
	}
	if err != nil {
		return failed("write variable", name, err)
	}
	e.announce()
	return nil
}

func (e environment) Unset(name string) error {
	if err := checkEnvName(name); err != nil {
		return err
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, envKey, registry.SET_VALUE)
	if err != nil {
		return failed("open key of the machine environment", "", err)
	}
	defer func() { _ = key.Close() }()
	if err := absent(failed("delete variable", name, key.DeleteValue(name))); err != nil {
		return err
	}
	e.announce()
	return nil
}

// announce tells running programs that the environment has changed (WM_SETTINGCHANGE, "Environment"). It is a courtesy to
// shells of people who are logged on: services get a new environment when they start. So nothing is done about a failure, a
// hung window is passed over, and a machine without user32.dll has nobody to tell.
func (e environment) announce() {
	const (
		hwndBroadcast   = 0xffff
		wmSettingChange = 0x001a
		abortIfHung     = 0x0002
		timeout         = 200 // ms for each window
	)
	send := e.user32.NewProc("SendMessageTimeoutW")
	topic, err := windows.UTF16PtrFromString("Environment")
	if err != nil || send.Find() != nil {
		return
	}
	_, _, _ = send.Call(hwndBroadcast, wmSettingChange, 0, uintptr(unsafe.Pointer(topic)), abortIfHung, timeout, 0)
}
