return require "modules.circle_b"
