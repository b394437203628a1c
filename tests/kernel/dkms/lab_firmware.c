// SPDX-License-Identifier: GPL-2.0
/* Load a file of firmware, as the driver of a network card does, and log the text in it. */
#include <linux/firmware.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static struct platform_device *device;

static int __init lab_firmware_init(void)
{
	const struct firmware *firmware;
	int err;

	device = platform_device_register_simple("lab_firmware", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(device))
		return PTR_ERR(device);
	err = request_firmware(&firmware, "lab.bin", &device->dev);
	if (err) {
		platform_device_unregister(device);
		return err;
	}
	pr_info("lab_firmware: %zu bytes: %.*s\n", firmware->size, (int)firmware->size, (char *)firmware->data);
	release_firmware(firmware);
	return 0;
}

static void __exit lab_firmware_exit(void)
{
	platform_device_unregister(device);
}

module_init(lab_firmware_init);
module_exit(lab_firmware_exit);
MODULE_DESCRIPTION("Loads a file of firmware and logs it");
MODULE_LICENSE("GPL");
