return require "modules.circle_a"
